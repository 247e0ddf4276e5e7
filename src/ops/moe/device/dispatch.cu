// Dispatch: every row of a choice to the rank that has its expert, in one kernel without work of the host.
//
//   all warps         count choices, exchange counts, find the rows     dispatch_counts.cuh, dispatch_places.cuh
//   first warps       send tokens: to all rows here, to one row on each peer              dispatch_sender.cuh
//   the next warps    copy what peers have sent to its further rows                       dispatch_copier.cuh
//   the last warp     counts nothing; tells peers what has been sent                exchange_progress.cuh
//
// Why so: rows are what the grouped GEMM reads, so each choice must have its own, and writing them is what limits a
// rank besides the fabric: for 8192 tokens of 14 KiB with 8 choices 940 MB, which alone take 297 us, while the 117 MB
// that cross between two ranks need 314. So a token is read once, for all of its rows and peers, and crosses once for
// each rank, straight into a row: a staging place would be written and read for nothing. Copies are made while tokens
// arrive, token by token, not after the last arrival, where nothing would hide them.
//
// Rows, weights, origins and routes may be overwritten when this rank has entered the call, which its counts say; all
// of it is complete when the kernel ends. Intervals of tokens are the same for senders and copiers of all ranks: CTAs,
// warps and ring sizes are the same on every rank. All CTAs of a rank must be resident together.

#include "device/launch.hpp"
#include "ops/moe/device/dispatch_copier.cuh"
#include "ops/moe/device/dispatch_sender.cuh"
#include "ops/moe/device/launches.hpp"

namespace xstage::kernels {

template <class Delay>
__device__ inline void run_dispatch(const DispatchLaunch& launch, std::int32_t block, std::int32_t blocks) {
  const RolePlace all{0, dispatch_warps, warp_index(), 0, 0, block, blocks};
  const std::int32_t warp = all.warp;
  // The next kernel may start as soon as multiprocessors become free: it waits itself for what this one writes.
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
  cudaGridDependencySynchronize();  // the kernel before in the stream may have written the tokens
  places.count();
  delay();
  places.publish();
  if (sends) {
    sender.load_first();  // not before: choices and counts would queue behind 10 MB of rows
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
    // Nobody waits for peers here: copiers have heard from all of them that everything has come.
    store_relaxed(CollectiveCall(launch.exchange.call, block).own_signal(MoeExchangePad::calls_of_dispatch(block)),
                  epoch);
  }
}

/// One rank a launch.
template <class Delay>
__global__ void __launch_bounds__(dispatch_threads, 1) dispatch_kernel(const __grid_constant__ DispatchLaunch launch) {
  run_dispatch<Delay>(launch, static_cast<std::int32_t>(blockIdx.x), static_cast<std::int32_t>(gridDim.x));
}

/// Virtual ranks: one cooperative launch, the rank comes from the block index. Parameters lie in device memory.
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
