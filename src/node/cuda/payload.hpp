#pragma once
// The stored data, chosen so that the receiver can verify every word. Kernels that write and kernels that verify use
// the same function.

#include <cstdint>

#include "base/host_device.hpp"

namespace xstage::cuda {

inline constexpr std::uint32_t poison_byte = 0xA5;
inline constexpr std::uint32_t poison_word = 0xA5A5A5A5U;

// Consecutive words differ by this odd constant, so a 16-byte store needs one multiply and three adds.
inline constexpr std::uint32_t payload_word_step = 0x9E3779B1U;

/// Word 0 of a producer's burst. Bulk copies keep one source in shared memory, so their payload ignores the burst.
XSTAGE_HOST_DEVICE constexpr std::uint32_t payload_base(std::uint32_t seed, std::uint32_t producer,
                                                        std::uint32_t burst) {
  return seed + producer * 0x85EBCA77U + burst * 0xC2B2AE3DU;
}

XSTAGE_HOST_DEVICE constexpr std::uint32_t payload_word(std::uint32_t base, std::uint32_t word) {
  return base + word * payload_word_step;
}

}  // namespace xstage::cuda
