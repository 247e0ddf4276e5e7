#pragma once
// Forward attention on one rank, in FlashAttention's order of work. Results go to the owners of their rows.
//
//   warpgroup 0                                  warpgroups 1 to 3
//     warp 0      loads by TMA into shared memory  each 64 query rows: scores, softmax, output, in registers
//     warps 1-3   store what warpgroups 1-3 staged
//
//   global query, key, value --TMA--> shared --WGMMA--> scores --softmax--> registers --WGMMA--> output --stmatrix-->
//   results in shared --bulk store--> own memory or a peer's
//
// A multiplying warpgroup never waits for the arrival of a store. It waits only until its 16 KiB of staged results have
// left shared memory, one whole tile later, and stalls when the X-Stage takes longer than that to accept them.

// This header must come first: without it the atoms compile to a run-time assertion.
#include <cute/arch/config.hpp>
//
#include <cutlass/arch/reg_reconfig.h>
#include <cute/arch/copy_sm90_desc.hpp>

#include "ops/attention/device/attend.cuh"
#include "ops/attention/device/input_watch.cuh"
#include "ops/attention/device/loader.cuh"
#include "ops/attention/device/store_warp.cuh"

namespace xstage::kernels {

template <int HeadDim, bool WatchesInput, class Probe>
__device__ inline void run_attention_helper(const AttentionLaunch& launch, std::int32_t block, std::int32_t blocks,
                                            std::uint32_t warp) {
  cudaGridDependencySynchronize();  // the kernel before this one in the stream may have written what is read from here
                                    // on
  if constexpr (WatchesInput) {
    if (warp == 1) {
      InputWatch<HeadDim>(launch, block).run();
    }
  }
  if (warp > 0) {
    AttentionStoreWarp<HeadDim, Probe>(launch, static_cast<int>(warp) - 1).run(block);
  } else if (cute::elect_one_sync() != 0U) {
    AttentionLoader<HeadDim, Probe>(launch, block, blocks).run();
  }
  __syncwarp();
}

/// `WatchesInput`: instrumented kernels and virtual ranks have their parameters in memory and too few registers to poll
/// the flags of arriving operands.
template <int HeadDim, class Element, bool WatchesInput, class Probe>
__device__ inline void run_attention(const AttentionLaunch& launch, std::int32_t block, std::int32_t blocks) {
  // The shuffle tells the compiler that all lanes have the same number: addresses that depend on it are then passed to
  // WGMMA directly.
  const std::uint32_t warp = __shfl_sync(0xFFFFFFFFU, threadIdx.x / 32U, 0);
  if (warp == 0 && cute::elect_one_sync() != 0U) {
    AttentionShared<HeadDim>::initialise(block, blocks, launch.inputs.next_call != nullptr);
    Probe::start_all(launch.probe, AttentionShared<HeadDim>::barriers().probes, block);
  }
  __syncthreads();
  // The next kernel may start as soon as multiprocessors become free; it waits itself for the results of this one.
  cudaTriggerProgrammaticLaunchCompletion();
  if (warp < 4U) {
    cutlass::arch::warpgroup_reg_dealloc<AttentionLayout<HeadDim>::helper_registers>();
    run_attention_helper<HeadDim, WatchesInput, Probe>(launch, block, blocks, warp);
  } else {
    cutlass::arch::warpgroup_reg_alloc<AttentionLayout<HeadDim>::multiply_registers>();
    AttendWarpgroup<HeadDim, Element, Probe>(launch, static_cast<int>(warp / 4U) - 1).run();
  }
}

/// The kernel of one rank in a launch of its own.
template <int HeadDim, class Element, class Probe>
__global__ void __launch_bounds__(attention_threads, 1)
    attention_kernel(const __grid_constant__ AttentionLaunch launch) {
  run_attention<HeadDim, Element, !Probe::records, Probe>(launch, static_cast<std::int32_t>(blockIdx.x),
                                                          static_cast<std::int32_t>(gridDim.x));
}

/// Fences tensor maps in device memory for this warp, whose multiprocessor may have cached earlier maps at the same
/// addresses.
__device__ inline void acquire_tensor_maps(const CUtensorMap* maps, std::int32_t count) {
  for (std::int32_t map = 0; map < count; ++map) {
    cute::tma_descriptor_fence_acquire(maps + map);
  }
}

/// The kernel of all virtual ranks in one cooperative launch: the rank follows from the block index, and parameters lie
/// in device memory.
template <int HeadDim, class Element, class Probe>
__global__ void __launch_bounds__(attention_threads, 1)
    attention_virtual_kernel(const AttentionLaunch* launches, std::int32_t ranks) {
  const std::int32_t blocks = static_cast<std::int32_t>(gridDim.x) / ranks;
  const std::int32_t block = static_cast<std::int32_t>(blockIdx.x);
  const AttentionLaunch& launch = launches[block / blocks];
  if (threadIdx.x < 32U) {  // the loader's warp
    acquire_tensor_maps(&launch.query, 1);
    acquire_tensor_maps(&launch.key, 1);
    acquire_tensor_maps(&launch.value, 1);
  } else if (threadIdx.x < 128U) {  // store warps
    acquire_tensor_maps(launch.output, launch.destinations.count);
  }
  run_attention<HeadDim, Element, false, Probe>(launch, block % blocks, blocks);
}

}  // namespace xstage::kernels
