#include "ops/ulysses/bench/comparison.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "bench/sampling.hpp"

namespace xstage::bench {

namespace {

bool is_nan(std::uint16_t bits) {
  constexpr unsigned magnitude = 0x7FFF;
  constexpr unsigned infinity = 0x7F80;
  return (bits & magnitude) > infinity;
}

void require_equal_sizes(std::size_t one, std::size_t other) {
  if (one != other) {
    throw std::logic_error("a comparison needs two sides of the same length");
  }
}

}  // namespace

void SampledErrors::add(float result, double expected) { elements_.push_back({static_cast<double>(result), expected}); }

double SampledErrors::largest() const {
  double squares = 0;
  for (const Element& element : elements_) {
    squares += element.expected * element.expected;
  }
  const double root_mean_square = std::sqrt(squares / static_cast<double>(std::max<std::size_t>(elements_.size(), 1)));
  double largest = 0;
  for (const Element& element : elements_) {
    largest = std::max(largest, error_in_roundings(element.result, element.expected, root_mean_square));
  }
  return largest;
}

double dot(std::span<const float> one, std::span<const float> other) {
  require_equal_sizes(one.size(), other.size());
  double sum = 0;
  for (std::size_t index = 0; index < one.size(); ++index) {
    sum += static_cast<double>(one[index]) * static_cast<double>(other[index]);
  }
  return sum;
}

std::int64_t count_differing(std::span<const std::uint16_t> result, std::span<const std::uint16_t> reference) {
  require_equal_sizes(result.size(), reference.size());
  std::int64_t count = 0;
  for (std::size_t index = 0; index < result.size(); ++index) {
    count += result[index] != reference[index] || is_nan(result[index]) ? 1 : 0;
  }
  return count;
}

}  // namespace xstage::bench
