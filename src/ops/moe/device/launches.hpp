#pragma once
// The compiled kernels of dispatch, combine and packing, and their launches. Those of the linear layers: grouped.hpp.
//
// load_...() loads kernels on the current device: a first launch would load them while another rank's kernel may
// already wait for this one, and loading may wait for the device. All launches enqueue on the current device and throw
// DeviceError. All CTAs of dispatch or combine must fit on that device at once.

#include <cuda_runtime_api.h>

#include <cstdint>

#include "ops/moe/device/parameters.hpp"

namespace xstage::kernels {

void load_dispatch();
void load_combine();

void launch_dispatch(const DispatchLaunch& launch, int blocks, cudaStream_t stream);
void launch_combine(const CombineLaunch& launch, int blocks, cudaStream_t stream);

/// Launches all virtual ranks of the current device as one cooperative kernel. `launches` lie in device memory, `first`
/// is the host's copy of the first of them, and all have the same number of CTAs, warps and stages.
void launch_virtual_dispatch(const DispatchLaunch* launches, const DispatchLaunch& first, int ranks, int blocks,
                             cudaStream_t stream);
void launch_virtual_combine(const CombineLaunch* launches, const CombineLaunch& first, int ranks, int blocks,
                            cudaStream_t stream);

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

void launch_pack_linear1(const Linear1Packing& packing, cudaStream_t stream);

}  // namespace xstage::kernels
