#pragma once
// The grouped GEMM of the mixture-of-experts layer: for each local expert, its rows times its weights. Linear-1 with
// SwiGLU and router weight, or Linear-2.

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/moe/grouped_parameters.hpp"
#include "kernels/moe/grouped_plan.hpp"

namespace xstage::kernels {

/// Device addresses. Rows of expert e begin at row first_block[e] * 128 of `rows`, `output` and `router_weights`; what
/// lies between an expert's last row and the next multiple of 128 may be anything, and is overwritten in `output`.
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

/// Loads the kernel on the current device; a first launch would do so while a peer's kernel may already wait.
void load_grouped(const GroupedGemm& gemm);

/// Enqueues on the current device. Throws DeviceError.
void launch_grouped(const GroupedGemm& gemm, cudaStream_t stream);

}  // namespace xstage::kernels
