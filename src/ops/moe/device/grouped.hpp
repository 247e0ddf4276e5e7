#pragma once
// The grouped GEMM of the mixture-of-experts layer: for each local expert, its rows times its weights. Linear-1 with
// SwiGLU and router weight, or Linear-2.

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "ops/moe/grouped_plan.hpp"
#include "ops/moe/linear_order.hpp"

namespace xstage::kernels {

/// Device addresses of one launch. Rows of expert e begin at row first_block[e] * 128 of `rows`, `output` and
/// `router_weights`. The rows between an expert's last one and the next multiple of 128 may hold anything, and are
/// overwritten in `output`.
struct GroupedOperands {
  const void* rows = nullptr;                 // bf16 [most_rows, depth]
  std::int64_t most_rows = 0;                 // a multiple of 128
  const void* weights = nullptr;              // bf16 [experts, columns, depth]; gated: packed by moe::pack_linear1
  void* output = nullptr;                     // bf16 [most_rows, columns], gated: [most_rows, columns / 2]
  const std::int32_t* counts = nullptr;       // [experts]; read by the device, as are the others
  const std::int32_t* first_block = nullptr;  // [experts + 1], as schedule::MoeBlocks::sum makes it
  const float* router_weights = nullptr;      // [most_rows]; gated only
  float clamp = 0;                            // of SwiGLU; 0: none
};

/// The kernel's only parameter. Tensor maps come first, because they have the strictest alignment.
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
  std::int32_t staging;         // chunks of 64 x 64 bf16 that each multiplying warpgroup may have in flight
  std::int32_t staging_offset;  // in shared memory, behind the ring
  std::int32_t behind_offset;   // memory that roles share, behind staging
  schedule::LinearTiling tiling;
};

/// A launch that can be repeated.
struct GroupedGemm {
  GroupedLaunch launch{};
  int tile_columns = 0;
  bool gated = false;
  int issuers = 0;
  int shared_bytes = 0;
};

/// Throws InputError for a shape or a plan that breaks a rule. `plan` is complete.
[[nodiscard]] GroupedGemm make_grouped(const GroupedShape& shape, const GroupedPlan& plan,
                                       const GroupedOperands& operands);

/// Loads the kernel on the current device. A first launch would load it while a peer's kernel may already wait.
void load_grouped(const GroupedGemm& gemm);

/// Enqueues the kernel on the current device. Throws DeviceError.
void launch_grouped(const GroupedGemm& gemm, cudaStream_t stream);

}  // namespace xstage::kernels
