// The dispatch kernels, their plan and their launch.

#include "kernels/moe/dispatch.hpp"

#include "kernels/moe/dispatch_kernel.cuh"
#include "kernels/moe/moe_exchange_launch.hpp"

namespace xstage::kernels {

namespace {

constexpr int least_stages = MoeStageRing::stores_under_way + 1;

moe_exchange::LaunchShape shape_of(const DispatchLaunch& launch, int blocks, bool cooperative) {
  return {blocks, dispatch_threads, DispatchLayout::of(launch).bytes, cooperative};
}

}  // namespace

void plan_dispatch(DispatchLaunch& launch, const DispatchTuning& tuning) {
  using moe_exchange::or_rule;
  const bool alone = launch.exchange.call.world == 1;
  launch.copiers = alone ? 0 : std::clamp(or_rule(tuning.copiers, 3), 1, dispatch_warps - 1);
  launch.senders = std::clamp(or_rule(tuning.senders, alone ? dispatch_warps : 3), 1, dispatch_warps - launch.copiers);
  launch.sender_ring.stages = std::clamp(or_rule(tuning.sender_stages, 5), least_stages, most_moe_stages);
  launch.copier_ring.stages = std::clamp(or_rule(tuning.copier_stages, 4), least_stages, most_moe_stages);
  launch.counted_by_all = std::max(0, or_rule(tuning.counted_by_all, 4096));
  int piece = or_rule(tuning.piece_bytes, 8192);
  // Shorter rings first, then shorter pieces.
  for (;;) {
    launch.sender_ring.stage_bytes = moe_exchange::even_piece(launch.exchange.row_bytes, piece);
    launch.copier_ring.stage_bytes = launch.sender_ring.stage_bytes;
    if (DispatchLayout::of(launch).bytes <= moe_exchange::most_shared_bytes) {
      return;
    }
    if (launch.sender_ring.stages > least_stages && launch.sender_ring.stages >= launch.copier_ring.stages) {
      --launch.sender_ring.stages;
    } else if (launch.copier_ring.stages > least_stages) {
      --launch.copier_ring.stages;
    } else {
      piece = launch.sender_ring.stage_bytes - 16;
    }
  }
}

void load_dispatch() {
  moe_exchange::allow_shared_memory(dispatch_kernel, "dispatch");
  moe_exchange::allow_shared_memory(dispatch_virtual_kernel, "dispatch");
}

void launch_dispatch(const DispatchLaunch& launch, int blocks, cudaStream_t stream) {
  moe_exchange::enqueue(dispatch_kernel, shape_of(launch, blocks, false), stream, "dispatch", launch);
}

void launch_virtual_dispatch(const DispatchLaunch* launches, const DispatchLaunch& first, int ranks, int blocks,
                             cudaStream_t stream) {
  moe_exchange::enqueue(dispatch_virtual_kernel, shape_of(first, blocks * ranks, true), stream, "dispatch", launches,
                        static_cast<std::int32_t>(ranks));
}

}  // namespace xstage::kernels
