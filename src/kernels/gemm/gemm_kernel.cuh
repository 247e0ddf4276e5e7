#pragma once
// One kernel for a GEMM and everything that is fused with it. What differs between operations is data: the regions of
// the output, where each one's tiles go, what their loads wait for.
//
//   warpgroup 0, four helpers of one thread each        warpgroups 1 and 2
//     warp 0  loader: operands into the ring              multiply rows 0-63 and 64-127 of the tile,
//     warp 1  stores of warpgroup 1                       stage the result in bf16, go on with the next tile
//     warp 2  stores of warpgroup 2
//     warp 3  pushes the own shard (all-gather)
//
//   global A, B --TMA--> ring --WGMMA--> registers --stmatrix--> staging --TMA--> local output or a peer's memory
//                                            ^                      |
//                                            +--ldmatrix-- peers' partial tiles (reduction), loaded by warp 1 or 2
//
// A multiplying warpgroup never waits for a store to arrive, only for staging to be free: it stalls when the X-Stage
// and the staging chunks are both full. Staging for a whole tile (four chunks of 64 columns) costs one stage of the
// ring.

#include <cstddef>
#include <new>

#include "kernels/gemm/gemm_context.cuh"
#include "kernels/gemm/loader.cuh"
#include "kernels/gemm/multiply.cuh"
#include "kernels/gemm/push.cuh"
#include "kernels/gemm/store_warp.cuh"

namespace xstage::kernels {

/// One warp, a few barriers each lane: one thread takes half a microsecond for all of them.
__device__ inline void initialise_barriers(GemmBarriers& barriers, std::uint32_t cluster_size) {
  const std::uint32_t lane = threadIdx.x % 32U;
  if (lane < max_stages) {
    barriers.full[lane].init(1);
    barriers.empty[lane].init(2 * cluster_size);  // both warpgroups of every CTA that the loads of one CTA reach
  } else if (lane < max_stages + 2 * max_staging) {
    const std::uint32_t half = (lane - max_stages) / max_staging;
    const std::uint32_t place = (lane - max_stages) % max_staging;
    barriers.loaded[half][place].init(1);
    barriers.staged[half][place].init(4);
    barriers.vacant[half][place].init(1);
  } else if (lane < max_stages + 2 * max_staging + 2) {
    barriers.pushed[lane - max_stages - 2 * max_staging].init(1);
  }
  cutlass::arch::fence_barrier_init();
}

/// Touches every line of the parameters at once, so that the roles' dependent reads do not each wait for a cold line of
/// the constant cache.
__device__ inline void warm_parameters(const GemmLaunch& launch) {
  constexpr std::uint32_t line_bytes = 64;
  constexpr std::uint32_t first = offsetof(GemmLaunch, heap);  // tensor maps are read by the copy engine
  const std::uint32_t offset = first + line_bytes * (threadIdx.x % 128U);
  if (offset + sizeof(std::uint32_t) <= sizeof(GemmLaunch)) {
    const std::uint32_t word = *reinterpret_cast<const std::uint32_t*>(reinterpret_cast<const char*>(&launch) + offset);
    asm volatile("" ::"r"(word));
  }
}

/// Reads the number of the call for all roles.
__device__ inline void enter_call(const GemmLaunch& launch, GemmContext& context) {
  if (launch.world > 1) {
    context.epoch = load_relaxed(epoch_word(launch, context));
    store_release_shared(&context.epoch_known, 1U);
  }
}

/// One CTA tells the peers that this rank has entered the call: everything before it in the stream is finished. By a
/// helper that has nothing to do yet: a release at system scope takes it two microseconds.
__device__ inline void announce_call(const GemmLaunch& launch, const GemmContext& context) {
  for (std::int32_t peer = 0; context.block == 0 && peer < launch.world; ++peer) {
    if (peer != launch.rank) {
      post_entry(launch, peer, read_epoch(context));
    }
  }
}

/// One CTA of each rank: everything that peers store here in this call has arrived.
__device__ inline void await_peers_done(const GemmLaunch& launch, const GemmContext& context, std::uint32_t epoch) {
  const auto store_warps = static_cast<std::uint32_t>(2 * context.blocks);
  for (std::int32_t peer = 0; peer < launch.world; ++peer) {
    if (peer != launch.rank) {
      wait_at_least(context.waits, {WaitSite::peer_done, peer, 0, epoch},
                    own_signal(launch, SignalPad::done + SignalPad::line * static_cast<std::uint32_t>(peer)),
                    epoch * store_warps);
    }
  }
}

/// A rank that came when the others had given up may have waited for nothing; it must not take its results for good.
__device__ inline void report_abort(const GemmLaunch& launch, const GemmContext& context) {
  if (launch.world == 1 || context.block != 0) {
    return;
  }
  const std::uint32_t epoch = read_epoch(context);
  if (load_relaxed(own_signal(launch, SignalPad::abort)) != 0U) {
    report_expiry(context.waits, {WaitSite::end_of_call, launch.rank, 0, epoch}, 0, 0, 0, true);
  }
}

/// Opens the next call for this CTA. No host work and no reset kernel: graphs replay it (design rule 8).
__device__ inline void leave_call(const GemmLaunch& launch, const GemmContext& context) {
  if (launch.world == 1) {
    return;
  }
  const std::uint32_t epoch = read_epoch(context);
  if (context.block == 0 && launch.waits_done != 0) {
    await_peers_done(launch, context, epoch);
  }
  if (context.block == 0 && launch.waits_sent != 0) {
    wait_at_least(context.waits, {WaitSite::copies_sent, launch.rank, 0, epoch}, own_signal(launch, SignalPad::sent),
                  epoch);
  }
  if (context.block == 0 && (launch.waits_done != 0 || launch.waits_sent != 0)) {
    report_abort(launch, context);  // once more: who waits to the end must not miss what came meanwhile
  }
  store_relaxed(epoch_word(launch, context), epoch + 1U);
}

template <int TileColumns, class Probe>
__device__ inline void run_helper(const GemmLaunch& launch, GemmContext& context) {
  if (threadIdx.x % 32U != 0U) {
    return;
  }
  switch (threadIdx.x / 32U) {
    case 0:
      load_operands<TileColumns, Probe>(launch, context);
      report_abort(launch, context);  // here, since this thread ends early: the look costs the call no time
      break;
    case 1:
      announce_call(launch, context);
      [[fallthrough]];
    case 2:
      StoreWarp<TileColumns, Probe>(launch, context, static_cast<int>(threadIdx.x / 32U) - 1).run();
      break;
    default:
      enter_call(launch, context);
      push_shard<Probe>(launch, context);
      break;
  }
}

__device__ inline WaitContext wait_context(const GemmLaunch& launch) {
  WaitContext waits;
  waits.report = launch.report;
  waits.time_out_ns = launch.time_out_ns;
  waits.rank = launch.rank;
  waits.world = launch.world;
  waits.signals = launch.signals;
  waits.abort_word = SignalPad::abort;
  return waits;
}

// A CTA starts with 168 registers a thread; what the multiplying warpgroups take, the helpers must have given back, or
// setmaxnreg waits for ever. Between too few for the widest tile's accumulators and too few for the helpers lies 216 /
// 72: 224 / 56 and 208 / 88 spill.
template <int TileColumns>
struct RegisterSplit {
  static constexpr int multiply = TileColumns == 256 ? 216 : TileColumns == 128 ? 208 : 184;
  static constexpr int helper = 3 * 168 - 2 * multiply;
};

static_assert(sizeof(GemmBarriers) + sizeof(TileRing) + sizeof(GemmContext) + span_roles * sizeof(ProbeState) <=
              behind_rings_bytes);

/// All threads of the cluster are here. Relaxed: what they must see of each other are barriers, which their own fence
/// has published. With release semantics each thread drains all its memory operations first (MEMBAR.ALL.GPU), at both
/// ends of the kernel.
__device__ inline void wait_for_cluster() {
  cute::cluster_arrive_relaxed();
  cute::cluster_wait();
}

/// The kernel of one rank.
template <int TileColumns, bool Transforms, class Probe>
__device__ inline void run_rank(const GemmLaunch& launch, std::int32_t block, std::int32_t blocks) {
  extern __shared__ __align__(1024) char shared[];
  const schedule::GemmTiling& tiling = launch.schedule.tiling();
  const std::int32_t cluster_size = tiling.cluster_rows * tiling.cluster_columns;
  char* staging = shared + launch.stages * Stage<TileColumns>::bytes;
  char* push = staging + 2 * launch.staging * chunk_bytes;
  char* behind = push + (launch.gather.push != 0 ? push_bytes : 0);
  auto& barriers = *reinterpret_cast<GemmBarriers*>(behind);
  // In shared memory, not in registers: the two branches below have very different budgets, and what lives through both
  // would be spilled by the smaller one.
  auto& context = *reinterpret_cast<GemmContext*>(behind + sizeof(GemmBarriers) + sizeof(TileRing));
  if (threadIdx.x == 0) {
    new (&context) GemmContext{
        shared,
        staging,
        push,
        barriers,
        *reinterpret_cast<TileRing*>(behind + sizeof(GemmBarriers)),
        reinterpret_cast<ProbeState*>(behind + sizeof(GemmBarriers) + sizeof(TileRing) + sizeof(GemmContext)),
        wait_context(launch),
        0,
        0,
        0,
        cluster_size == 1 ? block : block / 2,
        cluster_size == 1 ? blocks : blocks / 2,
        cluster_size,
        cluster_size == 1 ? 0 : block % 2,
        block,
        blocks};
    cute::prefetch_tma_descriptor(&launch.a);
    cute::prefetch_tma_descriptor(&launch.b);
    cute::prefetch_tma_descriptor(&launch.output[0]);
  } else if (threadIdx.x / 32U == 1U) {
    initialise_barriers(barriers, static_cast<std::uint32_t>(cluster_size));
  } else if (threadIdx.x / 128U == 1U) {
    warm_parameters(launch);
  }
  __syncthreads();
  if (cluster_size > 1) {
    wait_for_cluster();
  }
  // Up to here nothing was read or written that the kernel before this one in the stream may touch: a programmatic
  // launch overlaps it with that kernel's last tiles. The next kernel may do the same as soon as multiprocessors become
  // free.
  cudaGridDependencySynchronize();
  cudaTriggerProgrammaticLaunchCompletion();

  if (threadIdx.x < 128U) {
    cutlass::arch::warpgroup_reg_dealloc<RegisterSplit<TileColumns>::helper>();
    run_helper<TileColumns, Probe>(launch, context);
    __syncwarp();  // one lane of each warp has worked; the barrier below is for whole warps
  } else {
    cutlass::arch::warpgroup_reg_alloc<RegisterSplit<TileColumns>::multiply>();
    MultiplyWarpgroup<TileColumns, Transforms, Probe>(launch, context, static_cast<int>(threadIdx.x / 128U) - 1).run();
  }

  // Peers in the cluster may still arrive at this CTA's barriers: nobody leaves before all are through.
  if (context.cluster_size > 1) {
    wait_for_cluster();
  } else {
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    leave_call(launch, context);
  }
}

/// One rank a launch.
template <int TileColumns, bool Transforms, class Probe>
__global__ void __launch_bounds__(gemm_threads, 1) gemm_kernel(const __grid_constant__ GemmLaunch launch) {
  run_rank<TileColumns, Transforms, Probe>(launch, static_cast<std::int32_t>(blockIdx.x),
                                           static_cast<std::int32_t>(gridDim.x));
}

/// Virtual ranks: one cooperative launch, the rank comes from the block index. Parameters lie in device memory.
template <int TileColumns, bool Transforms, class Probe>
__global__ void __launch_bounds__(gemm_threads, 1) gemm_virtual_kernel(const GemmLaunch* launches, std::int32_t ranks) {
  const std::int32_t blocks = static_cast<std::int32_t>(gridDim.x) / ranks;
  const std::int32_t block = static_cast<std::int32_t>(blockIdx.x);
  run_rank<TileColumns, Transforms, Probe>(launches[block / blocks], block % blocks, blocks);
}

}  // namespace xstage::kernels
