#pragma once
// Counter-based random numbers: element i of a stream is the same whatever the order of access.

#include <cstdint>

namespace xstage::bench {

/// SplitMix64's output function (Steele, Lea, Flood 2014) of the index-th step from `seed`.
[[nodiscard]] constexpr std::uint64_t random_bits(std::uint64_t seed, std::uint64_t index) {
  std::uint64_t bits = seed + (index + 1) * 0x9E3779B97F4A7C15ULL;
  bits = (bits ^ (bits >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  bits = (bits ^ (bits >> 27U)) * 0x94D049BB133111EBULL;
  return bits ^ (bits >> 31U);
}

}  // namespace xstage::bench
