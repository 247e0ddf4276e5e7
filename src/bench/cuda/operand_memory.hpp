#pragma once
// Random operands, so many that L2 does not hold those of the previous call, and results filled with poison.

#include <cstddef>
#include <cstdint>
#include <string>

#include "device/device_memory.hpp"

namespace xstage::bench {

/// Of bf16 and fp16, the types of all operands.
inline constexpr std::size_t element_bytes = 2;

/// Fills `elements` bf16, aligned to 4 bytes, with normally distributed numbers of mean 0. The distribution matters,
/// since the power of a GPU in a matrix product, and so its clock, depends on the data. The same `stream_number` gives
/// the same numbers. They are complete when this returns.
void fill_normal(int device, void* destination, std::size_t elements, double deviation, std::uint64_t stream_number);

/// Standard deviation of weights for products of this depth, with which results have the deviation of the other
/// operand.
[[nodiscard]] double weight_deviation(std::int64_t depth);

/// Number of operand sets of this size that calls must take in turn to find none of them in L2.
[[nodiscard]] int sets_beyond_l2(std::size_t bytes_of_set);
/// Text for the result file: how this number of sets treats L2.
[[nodiscard]] std::string l2_policy_text(int sets, std::size_t bytes_of_set);

/// Fills the memory with 0xFF bytes, which are NaN as bf16.
void poison(int device, void* address, std::size_t bytes);

[[nodiscard]] int multiprocessors_of(int device);

}  // namespace xstage::bench
