#pragma once
// What a launch of the grouped GEMM is told: one linear layer of all local experts. Numbers and addresses only.

#include <cuda.h>

#include <cstdint>

#include "schedule/moe_linear_order.hpp"

namespace xstage::kernels {

/// The kernel's one parameter. Tensor maps first: they have the strictest alignment.
struct GroupedLaunch {
  CUtensorMap rows;          // [rows, depth], boxes of a block
  CUtensorMap half_rows;     // of half a block
  CUtensorMap weights;       // [experts * columns, depth], boxes of a tile's columns
  CUtensorMap half_weights;  // of half of them
  CUtensorMap output;        // [rows, output columns], boxes of 64 rows

  const std::int32_t* counts;       // [experts]
  const std::int32_t* first_block;  // [experts + 1]
  const float* router_weights;      // [rows]; read by the gated kernel only
  float clamp;                      // 0: none

  std::int32_t experts;
  std::int32_t columns;         // of one expert's weights
  std::int32_t output_columns;  // half of them behind a gate
  std::int32_t depth_blocks;
  std::int32_t stages;
  std::int32_t stage_bytes;
  std::int32_t staging;         // chunks of 64 x 64 bf16 that each multiplying warpgroup may have under way
  std::int32_t staging_offset;  // in shared memory, behind the ring
  std::int32_t behind_offset;   // what roles share, behind staging
  schedule::LinearTiling tiling;
};

}  // namespace xstage::kernels
