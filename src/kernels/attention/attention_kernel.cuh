#pragma once
#include <cutlass/arch/reg_reconfig.h>

#include "kernels/attention/attend.cuh"
#include "kernels/attention/loader.cuh"

namespace xstage::kernels {

template <class Tile, class Element>
__global__ void __launch_bounds__(attention_threads, 1)
    attention_kernel(const __grid_constant__ AttentionLaunch launch) {
  const std::uint32_t warp = __shfl_sync(0xFFFFFFFFU, threadIdx.x / 32U, 0);
  if (warp == 0 && cute::elect_one_sync() != 0U) {
    AttentionShared<Tile>().initialise();
  }
  __syncthreads();
  if (warp < 4U) {
    cutlass::arch::warpgroup_reg_dealloc<24>();
    if (warp == 0 && cute::elect_one_sync() != 0U) {
      AttentionLoader<Tile>(launch).run(static_cast<std::int32_t>(blockIdx.x), static_cast<std::int32_t>(gridDim.x));
    }
  } else {
    cutlass::arch::warpgroup_reg_alloc<240>();
    AttentionWarpgroup<Tile, Element>(launch, static_cast<int>(warp / 4U) - 1).run();
  }
}

}  // namespace xstage::kernels
