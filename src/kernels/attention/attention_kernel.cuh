#pragma once
#include <cutlass/arch/reg_reconfig.h>

#include "kernels/attention/attend.cuh"
#include "kernels/attention/loader.cuh"

namespace xstage::kernels {

template <class Tile, class Element>
__global__ void __launch_bounds__(Tile::threads, 1)
    attention_kernel(const __grid_constant__ AttentionLaunch launch) {
  const std::uint32_t warp = __shfl_sync(0xFFFFFFFFU, threadIdx.x / 32U, 0);
  if (warp == 0 && cute::elect_one_sync() != 0U) {
    AttentionShared<Tile>().initialise(static_cast<std::uint32_t>(launch.cluster_size));
  }
  const bool clustered = launch.cluster_size > 1;
  std::uint32_t cluster_rank = 0;
  if (clustered) {
    cluster_rank = cute::block_rank_in_cluster();
    cute::cluster_arrive_relaxed();
    cute::cluster_wait();
  } else {
    __syncthreads();
  }
  if (warp < 4U) {
    cutlass::arch::warpgroup_reg_dealloc<Tile::loader_registers>();
    if (warp == 0 && cute::elect_one_sync() != 0U) {
      const auto cluster_size = static_cast<std::uint32_t>(launch.cluster_size);
      AttentionLoader<Tile>(launch, cluster_rank)
          .run(static_cast<std::int32_t>(blockIdx.x / cluster_size), static_cast<std::int32_t>(gridDim.x / cluster_size));
    }
  } else {
    cutlass::arch::warpgroup_reg_alloc<Tile::attend_registers>();
    AttentionWarpgroup<Tile, Element>(launch, static_cast<int>(warp / 4U) - 1).run();
  }
  __syncwarp();
  if (clustered) {  // the other CTA may still load into this one's memory, or arrive at its barriers
    cute::cluster_arrive_relaxed();
    cute::cluster_wait();
  }
}

}  // namespace xstage::kernels
