// Dispatch: it brings the row of every choice to the rank that has its expert, in one kernel without host work.
//
//   all warps         count choices, exchange counts, find the rows     dispatch_counts.cuh, dispatch_places.cuh
//   first warps       send each token to all of its rows here and to one row on each peer      dispatch_sender.cuh
//   the next warps    copy received tokens to their other rows                                 dispatch_copier.cuh
//   the last warp     does not count; signals peers what has been sent                   exchange_progress.cuh
//
// The grouped GEMM reads rows, so each choice must have its own row, and besides the fabric the writes of rows limit a
// rank: 8192 tokens of 14 KiB with 8 choices have 940 MB of rows, which alone take 297 us, while the 117 MB that cross
// between two ranks take 314 us. A token is therefore read once for all of its rows and peers, and it crosses once to
// each rank, directly into a row: a staging buffer would be written and read in vain. Copies are made while tokens
// arrive, token by token, and not after the last arrival, when nothing would hide them.
//
// Peers may overwrite rows, weights, origins and routes when this rank has entered the call, which its counts say. All
// of them are complete when the kernel ends. Senders and copiers of all ranks divide tokens into the same intervals, so
// CTAs, warps and ring sizes must be the same on every rank. All CTAs of a rank must be resident together.

#include "device/launch.hpp"
#include "ops/moe/device/dispatch_copier.cuh"
#include "ops/moe/device/dispatch_sender.cuh"
#include "ops/moe/device/launches.hpp"

namespace xstage::kernels {

template <class Delay>
__device__ inline void run_dispatch(const DispatchLaunch& launch, std::int32_t block, std::int32_t blocks) {
  const RolePlace all{0, dispatch_warps, warp_index(), 0, 0, block, blocks};
  const std::int32_t warp = all.warp;
  // The next kernel may start as soon as multiprocessors become free; it waits itself for the results of this one.
  cudaTriggerProgrammaticLaunchCompletion();
  const DispatchShared shared(launch, all);
  const DispatchPlaces places(launch, shared, all);
  places.prepare();
  shared.progress().prepare(all);
  all.synchronise();
  const bool sends = warp < launch.senders;
  const bool copies = !sends && warp - launch.senders < launch.copiers;
  const bool posts = launch.copiers != 0 && warp == dispatch_warps - 1;
  Delay delay(launch.delays, all);
  DispatchSender<Delay> sender(launch, shared, all.part(sends ? 0 : warp, launch.senders), delay);
  DispatchCopier<Delay> copier(launch, shared, all.part(copies ? launch.senders : warp, launch.copiers), delay);
  if (sends) {
    sender.prepare();
  }
  cudaGridDependencySynchronize();  // the kernel before this one in the stream may have written the tokens
  places.count();
  delay();
  places.publish();
  if (sends) {
    sender.load_first();  // loaded no earlier, since choices and counts would queue behind 10 MB of rows
  }
  delay();
  places.find();
  if (sends) {
    sender.run();
  } else if (copies) {
    copier.run();
  } else if (posts) {
    const std::int32_t least = launch.told_together * (launch.exchange.call.world - 1);
    MoePoster(launch.exchange.call, shared.progress(), MoeExchangePad::dispatch_flags, launch.senders, least, all,
              delay)
        .run(shared.words().epoch);
  }
  const std::uint32_t epoch = shared.words().epoch;
  all.synchronise();
  if (all.thread() == 0) {
    // No wait for peers is needed here: the copiers have acquired the last flag of each of them.
    store_relaxed(CollectiveCall(launch.exchange.call, block).own_signal(MoeExchangePad::calls_of_dispatch(block)),
                  epoch);
  }
}

/// The kernel of one rank in a launch of its own.
template <class Delay>
__global__ void __launch_bounds__(dispatch_threads, 1) dispatch_kernel(const __grid_constant__ DispatchLaunch launch) {
  run_dispatch<Delay>(launch, static_cast<std::int32_t>(blockIdx.x), static_cast<std::int32_t>(gridDim.x));
}

/// The kernel of all virtual ranks in one cooperative launch: the rank follows from the block index, and parameters lie
/// in device memory.
template <class Delay>
__global__ void __launch_bounds__(dispatch_threads, 1)
    dispatch_virtual_kernel(const DispatchLaunch* launches, std::int32_t ranks) {
  const std::int32_t blocks = static_cast<std::int32_t>(gridDim.x) / ranks;
  const std::int32_t block = static_cast<std::int32_t>(blockIdx.x);
  run_dispatch<Delay>(launches[block / blocks], block % blocks, blocks);
}

namespace {

LaunchShape shape_of(const DispatchLaunch& launch, int blocks, Start start) {
  return {static_cast<unsigned>(blocks), dispatch_threads, DispatchLayout::of(launch).bytes, SharedMemoryUse::all_of_l1,
          start};
}

}  // namespace

void load_dispatch() {
  load_kernel(dispatch_kernel<NoMoeDelay>, SharedMemoryUse::all_of_l1, "dispatch");
  load_kernel(dispatch_virtual_kernel<NoMoeDelay>, SharedMemoryUse::all_of_l1, "dispatch");
  load_kernel(dispatch_kernel<RandomMoeDelay>, SharedMemoryUse::all_of_l1, "dispatch");
  load_kernel(dispatch_virtual_kernel<RandomMoeDelay>, SharedMemoryUse::all_of_l1, "dispatch");
}

void launch_dispatch(const DispatchLaunch& launch, int blocks, cudaStream_t stream) {
  auto* kernel = launch.delays.longest_ns == 0 ? dispatch_kernel<NoMoeDelay> : dispatch_kernel<RandomMoeDelay>;
  launch_kernel(kernel, shape_of(launch, blocks, Start::overlapping), stream, "dispatch", launch);
}

void launch_virtual_dispatch(const DispatchLaunch* launches, const DispatchLaunch& first, int ranks, int blocks,
                             cudaStream_t stream) {
  auto* kernel =
      first.delays.longest_ns == 0 ? dispatch_virtual_kernel<NoMoeDelay> : dispatch_virtual_kernel<RandomMoeDelay>;
  launch_kernel(kernel, shape_of(first, blocks * ranks, Start::together), stream, "dispatch of virtual ranks", launches,
                ranks);
}

}  // namespace xstage::kernels
