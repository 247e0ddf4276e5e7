#pragma once
// Comparisons that verify a Ulysses layer: elements against sums in double, and whole results against each other. Host
// code without CUDA.

#include <cstdint>
#include <span>
#include <vector>

namespace xstage::bench {

/// Sampled elements of one result with their expected values; the magnitude of all of them is the scale of an error.
class SampledErrors {
 public:
  void add(float result, double expected);
  /// The largest error, in roundings of bf16 (sampling.hpp).
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

/// Number of elements of two bf16 results that differ in a bit or are NaN: an element that was never written is NaN in
/// both and still wrong. Throws std::logic_error unless both have the same length.
[[nodiscard]] std::int64_t count_differing(std::span<const std::uint16_t> result,
                                           std::span<const std::uint16_t> reference);

}  // namespace xstage::bench
