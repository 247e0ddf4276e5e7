#pragma once
// All-to-all by stores, in one kernel. Two threads of each CTA have a role:
//
//   warp 0   moves the CTA's chunks, signals the peers when they have arrived, opens the next call
//   warp 1   of CTA 0: signals the peers that this rank has entered the call, while warp 0 begins to load
//
// The first CTAs store to peers, and the others copy this rank's own rows at the same time
// (ops/all_to_all/schedule.hpp).

#include "device/tensor_map_fence.cuh"
#include "ops/all_to_all/device/mover.cuh"

namespace xstage::kernels {

inline constexpr int all_to_all_threads = 64;

/// Begins to load at once, and stores when the peers have entered. Returns the number of the call.
__device__ inline std::uint32_t move_chunks(const AllToAllLaunch& launch, const CollectiveCall& call,
                                            std::int32_t block) {
  AllToAllMover mover(launch, block);
  mover.prepare();
  cudaGridDependencySynchronize();  // the kernel before this one in the stream may have written the input
  // This load is in flight while the loads of chunks are issued.
  const std::uint32_t epoch = call.alone() ? 0U : call.epoch();
  mover.load_first();
  if (mover.stores_to_peers() && !call.await_peers(epoch)) {
    mover.drop();  // peers may still read the destination; they learn of the failure from the abort word
    return epoch;
  }
  mover.move();
  if (mover.serves_peers()) {
    fence_async_proxy();
    fence_release();
    call.post_done();
  }
  return epoch;
}

__device__ inline void run_all_to_all(const AllToAllLaunch& launch, std::int32_t block) {
  // The shuffle tells the compiler that all lanes have the same number.
  const std::uint32_t warp = __shfl_sync(0xFFFFFFFFU, threadIdx.x / 32U, 0);
  // The next kernel may start as soon as multiprocessors become free; it waits itself for the results of this one.
  cudaTriggerProgrammaticLaunchCompletion();
  const CollectiveCall call(launch.call, block);
  const bool leads = cute::elect_one_sync() != 0U;
  std::uint32_t epoch = 0;
  if (warp == 0 && leads) {
    epoch = move_chunks(launch, call, block);
  } else if (block == 0 && !call.alone() && leads) {
    cudaGridDependencySynchronize();
    call.announce(call.epoch());
  }
  __syncthreads();  // both have read the number of the call before it changes
  if (warp == 0 && leads && !call.alone()) {
    call.leave(epoch, static_cast<std::uint32_t>(launch.schedule.tiling().peer_blocks));
  }
}

/// The kernel of one rank in a launch of its own.
__global__ void __launch_bounds__(all_to_all_threads, 1)
    all_to_all_kernel(const __grid_constant__ AllToAllLaunch launch) {
  run_all_to_all(launch, static_cast<std::int32_t>(blockIdx.x));
}

/// The kernel of all virtual ranks in one cooperative launch: the rank follows from the block index, and parameters lie
/// in device memory.
__global__ void __launch_bounds__(all_to_all_threads, 1)
    all_to_all_virtual_kernel(const AllToAllLaunch* launches, std::int32_t ranks) {
  const std::int32_t blocks = static_cast<std::int32_t>(gridDim.x) / ranks;
  const std::int32_t block = static_cast<std::int32_t>(blockIdx.x);
  const AllToAllLaunch& launch = launches[block / blocks];
  if (threadIdx.x == 0) {
    fence_tensor_maps(launch.output, max_world);
  }
  __syncthreads();
  run_all_to_all(launch, block % blocks);
}

}  // namespace xstage::kernels
