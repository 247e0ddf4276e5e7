#pragma once
// One kernel for a GEMM and all collectives that are fused with it. Operations differ in data only: the regions of the
// output, the destinations of their tiles, and the arrivals that their loads wait for.
//
//   warpgroup 0, four helpers of one thread each        warpgroups 1 and 2
//     warp 0  loader: operands into the ring              multiply rows 0-63 and 64-127 of the tile,
//     warp 1  stores of warpgroup 1; may push, too        stage the result in bf16, go on with the next tile
//     warp 2  stores of warpgroup 2
//     warp 3  pushes the own shard (all-gather)
//
//   global A, B --TMA--> ring --WGMMA--> registers --stmatrix--> staging --TMA--> local output or a peer's memory
//                                            ^                      |
//                                            +--ldmatrix-- peers' partial tiles (reduction), loaded by warp 1 or 2
//
// A multiplying warpgroup never waits for the arrival of a store. It waits only for free staging, and stalls when both
// the X-Stage and the staging chunks are full. Staging for a whole tile (four chunks of 64 columns) costs one stage of
// the ring.

#include "ops/gemm/device/context.cuh"
#include "ops/gemm/device/loader.cuh"
#include "ops/gemm/device/multiply.cuh"
#include "ops/gemm/device/push.cuh"
#include "ops/gemm/device/store_warp.cuh"

namespace xstage::kernels {

/// First of the two warps that prefetch tensor maps: they have fewer barriers to set up, and time for the rest.
inline constexpr std::uint32_t prefetching_warp = 2 * max_staging + 2;
inline constexpr std::uint32_t context_warp = prefetching_warp + 1;
static_assert(context_warp < gemm_threads / 32);

/// One thread of each warp sets up its share of the barriers. The instruction takes one address a warp: with a barrier
/// for each lane the compiler loops over the lanes, and the 66 barriers took two microseconds.
__device__ inline void initialise_barriers(const GemmLaunch& launch, std::uint32_t warp) {
  constexpr std::int32_t warps = gemm_threads / 32;
  static_assert(warps >= 2 * max_staging + 2);
  GemmBarriers& barriers = SharedMemory(launch).barriers();
  // Readers are the warpgroups of every CTA that the loads of one CTA reach.
  const auto readers = static_cast<std::uint32_t>(launch.warpgroups * launch.cluster_size);
#pragma unroll 1
  for (auto stage = static_cast<std::int32_t>(warp); stage < launch.stages; stage += warps) {
    barriers.full[stage].init(1);
    barriers.empty[stage].init(readers);
  }
  if (warp < 2 * max_staging) {
    const std::uint32_t half = warp / max_staging;
    const std::uint32_t place = warp % max_staging;
    barriers.loaded[half][place].init(1);
    barriers.staged[half][place].init(4);
    barriers.vacant[half][place].init(1);
  } else if (warp < 2 * max_staging + 2) {
    barriers.pushed[warp - 2 * max_staging].init(1);
  }
  cutlass::arch::fence_barrier_init();
}

/// Reads the number of the call, for all roles.
__device__ inline void enter_call(const GemmLaunch& launch, const GemmPlace& place) {
  if (launch.call.world > 1) {
    GemmContext& context = SharedMemory(launch).context();
    context.epoch = call_of(launch, place).epoch();
    store_release_shared(&context.epoch_known, 1U);
  }
}

/// One CTA signals the peers that this rank has entered the call, so that everything before it in the stream has ended.
/// A helper that has nothing else to do does so, since a release at system scope takes two microseconds.
__device__ inline void announce_call(const GemmLaunch& launch, const GemmPlace& place) {
  if (launch.call.world == 1 || place.block != 0) {
    return;
  }
  call_of(launch, place).announce(read_epoch(SharedMemory(launch).context()));
}

/// Reports whether peers or this rank's own gate gave up; that is known when the kernel ends. Where copies run that
/// nothing stops (copy_gather.hpp), each CTA polls the abort word when its loads have arrived, since what it has read
/// may have been overwritten.
__device__ inline void report_abort(const GemmLaunch& launch, const GemmPlace& place) {
  if (launch.call.world > 1 && (place.block == 0 || launch.waits_sent != 0)) {
    call_of(launch, place).report_abort(read_epoch(SharedMemory(launch).context()));
  }
}

/// The waits of one CTA of the rank, by which the end of its kernel becomes the end of the call.
__device__ inline void await_end_of_call(const GemmLaunch& launch, const CollectiveCall& call, const GemmPlace& place,
                                         std::uint32_t epoch) {
  if (launch.waits_done != 0 && launch.leaves_early == 0) {
    call.await_peers_done(epoch, static_cast<std::uint32_t>(store_warps * place.blocks));
  }
  if (launch.waits_sent != 0) {
    wait_at_least(call.waits(), {WaitSite::copies_sent, launch.call.rank, 0, epoch}, call.own_signal(CallPad::sent),
                  epoch);
  }
}

/// Opens the next call for this CTA. That takes neither host work nor a reset kernel, so that graphs replay it (design
/// rule 8).
__device__ inline void leave_call(const GemmLaunch& launch, const GemmPlace& place) {
  if (launch.call.world == 1) {
    return;
  }
  const CollectiveCall call = call_of(launch, place);
  const std::uint32_t epoch = read_epoch(SharedMemory(launch).context());
  if (place.block == 0 && (launch.waits_done != 0 || launch.waits_sent != 0)) {
    await_end_of_call(launch, call, place, epoch);
    call.report_abort(epoch);  // polled once more, for an abort that came during the wait
  }
  call.open_next(epoch);
}

/// Pushes this rank's shard. The number of the call is read while the first piece is loaded.
template <class Probe>
__device__ inline void push_shard(const GemmLaunch& launch, const GemmPlace& place) {
  if (launch.gather.push == 0 || launch.call.world == 1) {
    enter_call(launch, place);
    return;
  }
  PushWarp<Probe> push(launch, place, 0, SpanRole::push);
  push.load_first();
  enter_call(launch, place);
  push.run();
}

/// Lets a store warp push before its first tile is multiplied.
template <class Probe>
__device__ inline void help_to_push(const GemmLaunch& launch, const GemmPlace& place) {
  if (launch.gather.push == 0 || launch.call.world == 1 || launch.gather.push_warps < 2) {
    return;
  }
  PushWarp<Probe> push(launch, place, 1, SpanRole::store_first);
  push.load_first();
  push.run();
}

/// The roles of the four helper warps, one thread each.
template <int TileColumns, class Probe>
__device__ inline void run_helper(const GemmLaunch& launch, const GemmPlace& place, const schedule::GemmTile& first,
                                  std::uint32_t warp) {
  if (warp == 0) {
    Loader<TileColumns, Probe>(launch, place, first).run();
    report_abort(launch, place);  // polled by this thread, because it ends early and the poll costs the call no time
    return;
  }
  await_kernel_before();
  switch (warp) {
    case 1:
      announce_call(launch, place);
      help_to_push<Probe>(launch, place);
      StoreWarp<TileColumns, Probe>(launch, place, 0).run();
      leave_call(launch, place);
      break;
    case 2:
      StoreWarp<TileColumns, Probe>(launch, place, 1).run();
      break;
    default:
      push_shard<Probe>(launch, place);
      break;
  }
}

// Registers of a thread. A CTA starts with 168; the helpers must give back what the multiplying warpgroups take, or
// setmaxnreg waits for ever. 216 / 72 fits both the accumulators of the widest tile and the helpers, while 224 / 56 and
// 208 / 88 spill.
template <int TileColumns>
struct RegisterSplit {
  static constexpr int multiply = TileColumns == 256 ? 216 : TileColumns == 128 ? 208 : 184;
  static constexpr int helper = 3 * 168 - 2 * multiply;
};

/// Barrier of all threads of the cluster. It is relaxed: the threads must see of each other only barriers, which their
/// own fence has published. With release semantics each thread would drain all its memory operations first
/// (MEMBAR.ALL.GPU).
__device__ inline void wait_for_cluster() {
  cute::cluster_arrive_relaxed();
  cute::cluster_wait();
}

/// Sets up barriers, context and tensor maps, which concern this CTA alone. It may run before the preceding kernel has
/// ended.
template <class Probe>
__device__ inline void set_up(const GemmLaunch& launch, std::int32_t block, std::uint32_t warp) {
  if (cute::elect_one_sync() == 0U) {
    return;
  }
  if (warp == prefetching_warp) {
    cute::prefetch_tma_descriptor(&launch.a);
    cute::prefetch_tma_descriptor(&launch.b);
    cute::prefetch_tma_descriptor(&launch.output[0]);
  } else if (warp == context_warp) {
    const SharedMemory shared(launch);
    shared.context() = {0, 0, 0, 0};
    Probe::start_all(launch.probe, shared.probes(), block);
  }
  initialise_barriers(launch, warp);
}

/// The kernel of one rank.
template <int TileColumns, bool Transforms, class Probe>
__device__ inline void run_rank(const GemmLaunch& launch, std::int32_t block, std::int32_t blocks) {
  // The shuffle tells the compiler that all lanes have the same number.
  const std::uint32_t warp = __shfl_sync(0xFFFFFFFFU, threadIdx.x / 32U, 0);
  set_up<Probe>(launch, block, warp);
  const GemmPlace place = place_of(launch, block, blocks);
  // All threads compute the first tile, though the loader alone needs it: in a branch the compiler would not know that
  // they agree on it.
  schedule::GemmTile first{};
  if (place.cluster < launch.schedule.cluster_tiles()) {
    first = launch.schedule.tile(place.cluster, place.rank_in_cluster);
  }
  __syncthreads();
  if (launch.cluster_size > 1) {
    wait_for_cluster();
  }
  // The next kernel may start as soon as multiprocessors become free; it waits itself for the results of this one.
  cudaTriggerProgrammaticLaunchCompletion();
  const auto warpgroup = static_cast<int>(warp / 4U);
  if (warpgroup == 0) {
    cutlass::arch::warpgroup_reg_dealloc<RegisterSplit<TileColumns>::helper>();
    if (cute::elect_one_sync() != 0U) {
      run_helper<TileColumns, Probe>(launch, place, first, warp);
    }
  } else if (warpgroup <= launch.warpgroups) {
    cutlass::arch::warpgroup_reg_alloc<RegisterSplit<TileColumns>::multiply>();
    MultiplyWarpgroup<TileColumns, Transforms, Probe>(launch, place, warpgroup - 1).run();
  }
}

/// The kernel of one rank in a launch of its own.
template <int TileColumns, bool Transforms, class Probe>
__global__ void __launch_bounds__(gemm_threads, 1) gemm_kernel(const __grid_constant__ GemmLaunch launch) {
  run_rank<TileColumns, Transforms, Probe>(launch, static_cast<std::int32_t>(blockIdx.x),
                                           static_cast<std::int32_t>(gridDim.x));
}

/// The kernel of all virtual ranks in one cooperative launch: the rank follows from the block index, and parameters lie
/// in device memory.
template <int TileColumns, bool Transforms, class Probe>
__global__ void __launch_bounds__(gemm_threads, 1) gemm_virtual_kernel(const GemmLaunch* launches, std::int32_t ranks) {
  const std::int32_t blocks = static_cast<std::int32_t>(gridDim.x) / ranks;
  const std::int32_t block = static_cast<std::int32_t>(blockIdx.x);
  const GemmLaunch& launch = launches[block / blocks];
  if (threadIdx.x == 0) {
    fence_tensor_map(&launch.a);
    fence_tensor_map(&launch.b);
    fence_tensor_map(&launch.push_input);
    fence_tensor_maps(launch.output, max_world);
  }
  __syncthreads();
  run_rank<TileColumns, Transforms, Probe>(launch, block % blocks, blocks);
}

}  // namespace xstage::kernels
