#pragma once
// The kernel behind moe::pack_linear1.

#include <cuda_runtime_api.h>

#include <cstdint>

namespace xstage::kernels {

/// Device addresses on 16 bytes; extents as moe::pack_linear1 names them, `expert_stride` not 0.
struct Linear1Packing {
  const void* gate;
  const void* up;
  void* packed;
  std::int64_t experts;
  std::int64_t intermediate;
  std::int64_t hidden;
  std::int64_t expert_stride;
};

/// Enqueues on the current device. Throws DeviceError.
void launch_pack_linear1(const Linear1Packing& packing, cudaStream_t stream);

}  // namespace xstage::kernels
