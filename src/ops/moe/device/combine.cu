// Combine, in one kernel: it sends results of Linear-2 to the ranks of their tokens, and adds up the rows of each token
// there.
//
//   first warps       send what this rank's experts computed for peers' tokens into the peers' slots, token by token:
//                     their sum, one row for each token               combine_partial_sender.cuh
//                     or all of their rows                                    combine_sender.cuh
//   the next warp     signals peers what has been sent               exchange_progress.cuh
//   the other warps   add up this rank's tokens as their rows arrive             combine_sum.cuh
//
// A row crosses the fabric once, in bf16, and rows of a rank's own experts do not move at all. For 8192 tokens of 14
// KiB with 8 choices on two ranks, partial sums are 117 MB and take 315 us of the fabric, while memory reads 1.06 GB
// and writes 235 MB. Single rows are 470 MB and take 1.26 ms.
//
// The tables of routes that dispatch wrote say on which rank each choice of a token has its row. A rank's slots are
// free again when the rank enters the next call. In a layer the next call is the next dispatch, and no peer sends
// before it has finished that dispatch, for which it needs this rank's counts. Combine therefore does not wait for the
// entry of peers, unless it is launched without a dispatch (`enters`). All CTAs of a rank must be resident together,
// and every rank must have the same number of them.

#include "device/launch.hpp"
#include "ops/moe/device/combine_partial_sender.cuh"
#include "ops/moe/device/combine_sender.cuh"
#include "ops/moe/device/combine_sum.cuh"
#include "ops/moe/device/launches.hpp"

namespace xstage::kernels {

struct CombineCall {
  std::uint32_t epoch;  // from 1 on
  /// The dispatch before this combine did nothing, because a call before it had an invalid choice: peers may not
  /// launch.
  bool passes_over;
};

/// Must run before any thread of the CTA ends the call.
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
  // The next kernel may start as soon as multiprocessors become free; it waits itself for the results of this one.
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
  cudaGridDependencySynchronize();  // the kernel before this one in the stream has written the rows
  const auto [epoch, passes_over] = begin_combine(call, block);
  if (launch.enters != 0 && block == 0 && all.thread() == combine_threads - 1) {
    call.announce(epoch);
  }
  if (passes_over) {
    // There is nothing to send and nothing to wait for.
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
  all.synchronise();  // all warps have read the number of the call before it changes
  if (all.thread() == 0) {
    // The adding warps have waited for peers.
    store_relaxed(call.own_signal(MoeExchangePad::calls_of_combine(block)), epoch);
  }
}

/// The kernel of one rank in a launch of its own.
template <class Delay>
__global__ void __launch_bounds__(combine_threads, 1) combine_kernel(const __grid_constant__ CombineLaunch launch) {
  run_combine<Delay>(launch, static_cast<std::int32_t>(blockIdx.x), static_cast<std::int32_t>(gridDim.x));
}

/// The kernel of all virtual ranks in one cooperative launch: the rank follows from the block index, and parameters lie
/// in device memory.
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
