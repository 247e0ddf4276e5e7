#include "bench/sampling.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "bench/random_bits.hpp"

namespace xstage::bench {

std::vector<std::int64_t> sample(std::int64_t extent, std::size_t count, std::uint64_t seed) {
  std::set<std::int64_t> chosen;
  if (extent > 0) {
    chosen = {0, extent - 1};
  }
  const std::size_t enough = std::min(count, static_cast<std::size_t>(std::max<std::int64_t>(extent, 0)));
  for (std::uint64_t index = 0; chosen.size() < enough; ++index) {
    chosen.insert(static_cast<std::int64_t>(random_bits(seed, index) % static_cast<std::uint64_t>(extent)));
  }
  return {chosen.begin(), chosen.end()};
}

double error_in_roundings(double result, double expected, double root_mean_square) {
  if (!std::isfinite(result)) {
    return std::numeric_limits<double>::infinity();
  }
  const double difference = std::abs(result - expected);
  const double scale = std::ldexp(std::abs(expected) + root_mean_square, -8);
  return difference == 0 ? 0 : difference / scale;
}

}  // namespace xstage::bench
