#pragma once
// Order of Linear-1's rows in its packing: 8 rows of gate, then the same 8 rows of up. In an accumulator of 16 columns
// one thread then holds gate and up of the same column.

#include <cstdint>

#include "base/host_device.hpp"

namespace xstage::moe {

inline constexpr std::int64_t packed_rows = 8;

/// Row of an expert's packed Linear-1 that holds this row of its gate projection.
XSTAGE_HOST_DEVICE constexpr std::int64_t packed_gate_row(std::int64_t row) {
  return row / packed_rows * (2 * packed_rows) + row % packed_rows;
}

/// The same for up.
XSTAGE_HOST_DEVICE constexpr std::int64_t packed_up_row(std::int64_t row) { return packed_gate_row(row) + packed_rows; }

}  // namespace xstage::moe
