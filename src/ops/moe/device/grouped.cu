// One linear layer of all local experts: for each expert, its rows times its weights. The number of rows of an expert
// is known only on the device, and each CTA finds its tiles from the counts.
//
//   warpgroup 0                                         warpgroups 1 and 2
//     warp 0  finds tiles, loads operands                 multiply rows 0-63 and 64-127 of a block,
//     warp 1  stores of warpgroup 1                       SwiGLU and router weight (Linear-1),
//     warp 2  stores of warpgroup 2                       stage the result in bf16, go on with the next tile
//
// The main loop is that of the GEMM kernel: tile/main_loop.cuh.

#include <cutlass/arch/reg_reconfig.h>

#include "device/launch.hpp"
#include "ops/moe/device/grouped.hpp"
#include "ops/moe/device/grouped_loader.cuh"
#include "ops/moe/device/grouped_multiply.cuh"
#include "ops/moe/device/grouped_shared.cuh"
#include "ops/moe/device/grouped_store.cuh"

namespace xstage::kernels {

/// One thread of each warp sets up its share of the barriers, since the instruction takes one address a warp.
__device__ inline void initialise_grouped_barriers(const GroupedLaunch& launch, const RolePlace& place) {
  constexpr std::int32_t warps = gemm_threads / 32;
  static_assert(warps >= 2 * max_staging + 1 && warps >= most_grouped_stages);
  GroupedBarriers& barriers = GroupedShared(launch, place).barriers();
  if (place.warp < launch.stages) {
    barriers.full[place.warp].init(1);
    // Readers are the warpgroups of every CTA that the loads of one CTA reach.
    barriers.empty[place.warp].init(static_cast<std::uint32_t>(2 * launch.tiling.cluster));
  }
  if (place.warp < 2 * max_staging) {
    const std::int32_t half = place.warp / max_staging;
    const std::int32_t number = place.warp % max_staging;
    barriers.staged[half][number].init(4);
    barriers.vacant[half][number].init(1);
  }
  cutlass::arch::fence_barrier_init();
}

/// Sets up barriers and tensor maps, which concern this CTA alone. It may run before the preceding kernel has ended.
__device__ inline void set_up_grouped(const GroupedLaunch& launch, const RolePlace& place) {
  if (cute::elect_one_sync() == 0U) {
    return;
  }
  if (place.warp == gemm_threads / 32 - 1) {
    cute::prefetch_tma_descriptor(&launch.rows);
    cute::prefetch_tma_descriptor(&launch.half_rows);
    cute::prefetch_tma_descriptor(&launch.weights);
    cute::prefetch_tma_descriptor(&launch.half_weights);
    cute::prefetch_tma_descriptor(&launch.output);
  }
  initialise_grouped_barriers(launch, place);
}

/// Copies the counts into shared memory, by all threads.
__device__ inline void copy_counts(const GroupedLaunch& launch, const RolePlace& place) {
  const GroupedShared shared(launch, place);
  for (std::int32_t expert = place.thread(); expert <= launch.experts; expert += place.threads()) {
    shared.first_block()[expert] = launch.first_block[expert];
    if (expert < launch.experts) {
      shared.counts()[expert] = launch.counts[expert];
    }
  }
}

// As RegisterSplit in ops/gemm/device/gemm_kernel.cuh: the helpers give back the registers that the multiplying
// warpgroups take.
template <int TileColumns>
struct GroupedRegisters {
  static constexpr int multiply = TileColumns == 256 ? 216 : 208;
  static constexpr int helper = 3 * 168 - 2 * multiply;
};

template <int TileColumns, bool Gated>
__global__ void __launch_bounds__(gemm_threads, 1) grouped_kernel(const __grid_constant__ GroupedLaunch launch) {
  const RolePlace all{0,
                      gemm_threads / 32,
                      warp_index(),
                      0,
                      0,
                      static_cast<std::int32_t>(blockIdx.x),
                      static_cast<std::int32_t>(gridDim.x)};
  set_up_grouped(launch, all);
  all.synchronise();
  if (launch.tiling.cluster > 1) {
    cute::cluster_arrive_relaxed();  // relaxed, since the other CTA must see only barriers, which their own fence has
                                     // published
  }
  // The next kernel may start as soon as multiprocessors become free; it waits itself for the results of this one.
  cudaTriggerProgrammaticLaunchCompletion();
  cudaGridDependencySynchronize();
  copy_counts(launch, all);
  all.synchronise();
  if (launch.tiling.cluster > 1) {
    cute::cluster_wait();
  }
  const std::int32_t tiles = same_in_warp(GroupedShared(launch, all).order().cluster_tiles());
  const std::int32_t warpgroup = all.warp / 4;
  if (warpgroup == 0) {
    cutlass::arch::warpgroup_reg_dealloc<GroupedRegisters<TileColumns>::helper>();
    if (all.warp == 0) {
      GroupedLoader<TileColumns>(launch, all.part(0, 1)).run(tiles);
    } else if (all.warp < 3) {
      GroupedStore<TileColumns, Gated>(launch, all.part(1, 2)).run(tiles);
    }
  } else {
    cutlass::arch::warpgroup_reg_alloc<GroupedRegisters<TileColumns>::multiply>();
    RolePlace place = all.part(4 * warpgroup, 4);
    place.barrier = warpgroup;
    GroupedMultiply<TileColumns, Gated>(launch, place, warpgroup - 1).run(tiles);
  }
}

namespace {

using Kernel = void (*)(GroupedLaunch);

Kernel choose(const GroupedGemm& gemm) {
  if (gemm.tile_columns == 256) {
    return gemm.gated ? grouped_kernel<256, true> : grouped_kernel<256, false>;
  }
  return gemm.gated ? grouped_kernel<128, true> : grouped_kernel<128, false>;
}

}  // namespace

void load_grouped(const GroupedGemm& gemm) { load_kernel(choose(gemm), SharedMemoryUse::dynamic, "the grouped GEMM"); }

void launch_grouped(const GroupedGemm& gemm, cudaStream_t stream) {
  const LaunchShape shape{static_cast<unsigned>(gemm.issuers),
                          gemm_threads,
                          gemm.shared_bytes,
                          SharedMemoryUse::dynamic,
                          Start::overlapping,
                          gemm.launch.tiling.cluster};
  launch_kernel(choose(gemm), shape, stream, "the grouped GEMM", gemm.launch);
}

}  // namespace xstage::kernels
