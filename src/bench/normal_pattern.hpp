#pragma once
// Random operands with a realistic distribution: the power of a GPU in a matrix product, and so its clock, depends on
// the data.

#include <cstdint>
#include <vector>

namespace xstage::bench {

/// `count` bf16 numbers, normally distributed with mean 0 and this standard deviation; the same for the same seed.
[[nodiscard]] std::vector<std::uint16_t> normal_pattern(std::size_t count, double deviation, std::uint64_t seed);

[[nodiscard]] std::uint16_t to_bf16(float value);  // rounds to nearest even; not for NaN
[[nodiscard]] float from_bf16(std::uint16_t bits);

}  // namespace xstage::bench
