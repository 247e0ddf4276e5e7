// Combine: results of Linear-2 to the ranks of their tokens, and there the sums over the tokens' choices, in one
// kernel.
//
//   first warps       send what this rank's experts have for peers' tokens into their slots, token by token:
//                     their sum, one row for each token               combine_partial_sender.cuh
//                     or all of their rows                                    combine_sender.cuh
//   the next warp     tells peers what has been sent                   exchange_progress.cuh
//   the other warps   add up this rank's tokens as their rows arrive             combine_sum.cuh
//
// What crosses does so once, in bf16. Rows of a rank's own experts do not move at all. For 8192 tokens of 14 KiB with 8
// choices on two ranks sums are 117 MB, 315 us of the fabric, and memory reads 1.06 GB and writes 235 MB; rows are
// 470 MB, 1.26 ms.
//
// Which rows a token has where stands in the tables of routes that dispatch left. Slots are free again when their rank
// enters the next call. Between the calls of a layer that is the next dispatch: no peer sends before it has finished
// that one, for which it needs this rank's counts. So combine waits for nobody's entry, unless it stands alone
// (`enters`). All CTAs of a rank must be resident together, and as many on every rank.

#include "device/launch.hpp"
#include "ops/moe/device/combine_partial_sender.cuh"
#include "ops/moe/device/combine_sender.cuh"
#include "ops/moe/device/combine_sum.cuh"
#include "ops/moe/device/launches.hpp"

namespace xstage::kernels {

struct CombineCall {
  std::uint32_t epoch;  // from 1 on
  /// The dispatch before it has done nothing, because of a bad choice in a call before that: peers may not come.
  bool passes_over;
};

/// Before any thread of the CTA ends the call.
__device__ inline CombineCall begin_combine(const CollectiveCall& call, std::int32_t block) {
  std::uint32_t calls;
  std::uint32_t passed_over;
  asm volatile("ld.relaxed.sys.global.v2.u32 {%0, %1}, [%2];"
               : "=r"(calls), "=r"(passed_over)
               : "l"(call.own_signal(MoeExchangePad::calls_of_combine(block)))
               : "memory");
  return {calls + 1U, passed_over != 0U};
}

template <class Delay>
__device__ inline void run_combine(const CombineLaunch& launch, std::int32_t block, std::int32_t blocks) {
  const RolePlace all{0, combine_warps, warp_index(), 0, 0, block, blocks};
  const std::int32_t warp = all.warp;
  // The next kernel may start as soon as multiprocessors become free: it waits itself for what this one writes.
  cudaTriggerProgrammaticLaunchCompletion();
  const CollectiveCall call(launch.exchange.call, block);
  const bool sends = warp < launch.senders;
  const RolePlace sender_place = all.part(sends ? 0 : warp, launch.senders);
  const CombineShared shared(launch, all);
  shared.progress().prepare(all);
  const Delay delay(launch.delays, all);
  CombineSender<Delay> sender(launch, shared, sender_place, delay);
  if (sends && launch.partial_sums == 0) {
    sender.prepare();
  }
  all.synchronise();
  cudaGridDependencySynchronize();  // the kernel before in the stream has made the rows
  const auto [epoch, passes_over] = begin_combine(call, block);
  if (launch.enters != 0 && block == 0 && all.thread() == combine_threads - 1) {
    call.announce(epoch);
  }
  if (passes_over) {
    // Nobody has anything to send or to wait for.
  } else if (sends && launch.partial_sums != 0) {
    CombinePartialSender<Delay>(launch, shared, sender_place, delay).run(epoch);
  } else if (sends) {
    sender.run(epoch);
  } else if (launch.senders != 0 && warp == launch.senders) {
    const CallParameters& parameters = launch.exchange.call;
    const std::int32_t least = launch.told_together * launch.senders * (parameters.world - 1);
    MoePoster(parameters, shared.progress(), MoeExchangePad::combine_flags(parameters.world, blocks), launch.senders,
              least, all, delay)
        .run(epoch);
  } else {
    const std::int32_t adders = combine_adders(launch.senders);
    CombineSum<Delay>(launch, all.part(combine_warps - adders, adders), delay).run(epoch);
  }
  all.synchronise();  // all have read the number of the call before it changes
  if (all.thread() == 0) {
    store_relaxed(call.own_signal(MoeExchangePad::calls_of_combine(block)), epoch);  // who adds has waited for peers
  }
}

/// One rank a launch.
template <class Delay>
__global__ void __launch_bounds__(combine_threads, 1) combine_kernel(const __grid_constant__ CombineLaunch launch) {
  run_combine<Delay>(launch, static_cast<std::int32_t>(blockIdx.x), static_cast<std::int32_t>(gridDim.x));
}

/// Virtual ranks: one cooperative launch, the rank comes from the block index. Parameters lie in device memory.
template <class Delay>
__global__ void __launch_bounds__(combine_threads, 1)
    combine_virtual_kernel(const CombineLaunch* launches, std::int32_t ranks) {
  const std::int32_t blocks = static_cast<std::int32_t>(gridDim.x) / ranks;
  const std::int32_t block = static_cast<std::int32_t>(blockIdx.x);
  run_combine<Delay>(launches[block / blocks], block % blocks, blocks);
}

namespace {

LaunchShape shape_of(const CombineLaunch& launch, int blocks, Start start) {
  return {static_cast<unsigned>(blocks), combine_threads, CombineLayout::of(launch).bytes, SharedMemoryUse::all_of_l1,
          start};
}

}  // namespace

void load_combine() {
  load_kernel(combine_kernel<NoMoeDelay>, SharedMemoryUse::all_of_l1, "combine");
  load_kernel(combine_virtual_kernel<NoMoeDelay>, SharedMemoryUse::all_of_l1, "combine");
  load_kernel(combine_kernel<RandomMoeDelay>, SharedMemoryUse::all_of_l1, "combine");
  load_kernel(combine_virtual_kernel<RandomMoeDelay>, SharedMemoryUse::all_of_l1, "combine");
}

void launch_combine(const CombineLaunch& launch, int blocks, cudaStream_t stream) {
  auto* kernel = launch.delays.longest_ns == 0 ? combine_kernel<NoMoeDelay> : combine_kernel<RandomMoeDelay>;
  launch_kernel(kernel, shape_of(launch, blocks, Start::overlapping), stream, "combine", launch);
}

void launch_virtual_combine(const CombineLaunch* launches, const CombineLaunch& first, int ranks, int blocks,
                            cudaStream_t stream) {
  auto* kernel =
      first.delays.longest_ns == 0 ? combine_virtual_kernel<NoMoeDelay> : combine_virtual_kernel<RandomMoeDelay>;
  launch_kernel(kernel, shape_of(first, blocks * ranks, Start::together), stream, "combine of virtual ranks", launches,
                ranks);
}

}  // namespace xstage::kernels
