// The combine kernels, their plan and their launch.

#include "kernels/moe/combine.hpp"

#include "kernels/moe/combine_kernel.cuh"
#include "kernels/moe/moe_exchange_launch.hpp"

namespace xstage::kernels {

namespace {

constexpr int least_stages = MoeStageRing::stores_under_way + 1;

moe_exchange::LaunchShape shape_of(const CombineLaunch& launch, int blocks, bool cooperative) {
  return {blocks, combine_threads, CombineLayout::of(launch).bytes, cooperative};
}

}  // namespace

/// One warp with a long ring of whole rows: of 8192 tokens, top-8, 7168 on two H200 95.6% of the drain rate, with four
/// warps and half rows 93.8%; 64 tokens 20.0 us and 22.6.
void plan_combine(CombineLaunch& launch, const CombineTuning& tuning) {
  using moe_exchange::or_rule;
  const bool alone = launch.exchange.call.world == 1;
  launch.senders = alone ? 0 : std::clamp(or_rule(tuning.senders, 1), 1, most_moe_senders);
  launch.groups = std::clamp(or_rule(tuning.groups, 3), 1, combine_warps - launch.senders);
  launch.sender_ring.stages = std::clamp(or_rule(tuning.stages, 14), least_stages, most_moe_stages);
  int piece = or_rule(tuning.piece_bytes, 16384);
  for (;;) {
    launch.sender_ring.stage_bytes = moe_exchange::even_piece(launch.exchange.row_bytes, piece);
    if (CombineLayout::of(launch).bytes <= moe_exchange::most_shared_bytes) {
      return;
    }
    if (launch.sender_ring.stages > least_stages) {
      --launch.sender_ring.stages;
    } else {
      piece = launch.sender_ring.stage_bytes - 16;
    }
  }
}

void load_combine() {
  moe_exchange::allow_shared_memory(combine_kernel, "combine");
  moe_exchange::allow_shared_memory(combine_virtual_kernel, "combine");
}

void launch_combine(const CombineLaunch& launch, int blocks, cudaStream_t stream) {
  moe_exchange::enqueue(combine_kernel, shape_of(launch, blocks, false), stream, "combine", launch);
}

void launch_virtual_combine(const CombineLaunch* launches, const CombineLaunch& first, int ranks, int blocks,
                            cudaStream_t stream) {
  moe_exchange::enqueue(combine_virtual_kernel, shape_of(first, blocks * ranks, true), stream, "combine", launches,
                        static_cast<std::int32_t>(ranks));
}

}  // namespace xstage::kernels
