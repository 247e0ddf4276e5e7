// The dispatch kernels, their plan and their launch.

#include "kernels/moe/dispatch.hpp"

#include "kernels/common/launch.hpp"
#include "kernels/moe/dispatch_kernel.cuh"
#include "kernels/moe/moe_exchange_launch.hpp"

namespace xstage::kernels {

namespace {

LaunchShape shape_of(const DispatchLaunch& launch, int blocks, Start start) {
  return {static_cast<unsigned>(blocks), dispatch_threads, DispatchLayout::of(launch).bytes, SharedMemoryUse::all_of_l1,
          start};
}

}  // namespace

/// Few senders with few pieces on the way: the fabric is full all the same, and its queue delays all other loads and
/// flags. 8192 tokens, top-8 on two H200, rows of 4 and 14 KiB: 115 and 350 us; by three senders 117 and 356, by one
/// 126 and 351; with two pieces under way 116 and 352, in pieces of 2 KiB 118 and 357; flags for four tokens 116 and
/// 354.
void plan_dispatch(DispatchLaunch& launch, const DispatchTuning& tuning) {
  using moe_exchange::or_rule;
  const bool alone = launch.exchange.call.world == 1;
  const int workers = alone ? dispatch_warps : dispatch_warps - 1;  // one warp tells peers
  launch.senders = std::clamp(or_rule(tuning.senders, alone ? dispatch_warps : 2), 1,
                              std::min(most_moe_senders, workers - (alone ? 0 : 1)));
  launch.copiers = alone ? 0 : std::clamp(or_rule(tuning.copiers, 8), 1, workers - launch.senders);
  if (!alone) {  // a copier's lanes keep a warp of a peer each
    launch.senders = std::min(launch.senders, 32 * launch.copiers / (launch.exchange.call.world - 1));
  }
  launch.told_together = std::max(1, or_rule(tuning.told_together, 2));
  launch.ring.under_way = std::clamp(or_rule(tuning.under_way, 1), 1, most_moe_stores_under_way);
  launch.ring.stages = std::clamp(or_rule(tuning.stages, 8), launch.ring.under_way + 1, most_moe_stages);
  launch.counted_by_all = std::max(0, or_rule(tuning.counted_by_all, 4096));
  moe_exchange::fit_ring(launch.ring, launch.exchange.row_bytes, or_rule(tuning.piece_bytes, 8192),
                         [&launch] { return DispatchLayout::of(launch).bytes; });
}

int dispatch_shared_bytes(const DispatchLaunch& launch) { return DispatchLayout::of(launch).bytes; }

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
