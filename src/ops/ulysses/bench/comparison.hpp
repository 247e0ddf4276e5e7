#pragma once
// How results of a Ulysses layer are judged: elements against sums in double, and whole results against each other.
// Pure host code.

#include <cstdint>
#include <span>
#include <vector>

namespace xstage::bench {

/// Elements of one result beside what they must be; their size together is the scale of an error.
class SampledErrors {
 public:
  void add(float result, double expected);
  /// In roundings of bf16 (sampling.hpp).
  [[nodiscard]] double largest() const;

 private:
  struct Element {
    double result;
    double expected;
  };
  std::vector<Element> elements_;
};

/// Sum of products in double. Throws std::logic_error unless both have the same length.
[[nodiscard]] double dot(std::span<const float> one, std::span<const float> other);

/// Elements of two bf16 results that are not the same bits, or that are NaN: one that was never written is wrong even
/// where both have it. Throws std::logic_error unless both have as many.
[[nodiscard]] std::int64_t count_differing(std::span<const std::uint16_t> result,
                                           std::span<const std::uint16_t> reference);

}  // namespace xstage::bench
