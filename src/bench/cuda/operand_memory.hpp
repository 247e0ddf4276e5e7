#pragma once
// Random operands, so many of them that L2 does not hold what the call before read, and results that are poison.

#include <cstddef>
#include <cstdint>
#include <string>

#include "device/device_memory.hpp"

namespace xstage::bench {

/// Fills `elements` bf16, aligned to 4 bytes, with normally distributed numbers of mean 0: what a GPU draws in a matrix
/// product, and so its clock, depends on the data. The same `stream_number` gives the same numbers. They are there when
/// this returns.
void fill_normal(int device, void* destination, std::size_t elements, double deviation, std::uint64_t stream_number);

/// Of weights whose products have this depth: results then have the deviation of the other operand.
[[nodiscard]] double weight_deviation(std::int64_t depth);

/// Sets of operands, each of so many bytes, that calls must take in turn to find none of them in L2.
[[nodiscard]] int sets_beyond_l2(std::size_t bytes_of_set);
/// How that treats L2, for the result file.
[[nodiscard]] std::string l2_policy_text(int sets, std::size_t bytes_of_set);

/// Every byte 0xFF: NaN as bf16.
void poison(int device, void* address, std::size_t bytes);

[[nodiscard]] int multiprocessors_of(int device);

}  // namespace xstage::bench
