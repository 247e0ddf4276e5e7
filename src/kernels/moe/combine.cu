// The combine kernels, their plan and their launch.

#include "kernels/moe/combine.hpp"

#include "kernels/common/launch.hpp"
#include "kernels/moe/combine_kernel.cuh"
#include "kernels/moe/moe_exchange_launch.hpp"

namespace xstage::kernels {

namespace {

LaunchShape shape_of(const CombineLaunch& launch, int blocks, Start start) {
  return {static_cast<unsigned>(blocks), combine_threads, CombineLayout::of(launch).bytes, SharedMemoryUse::all_of_l1,
          start};
}

}  // namespace

/// Partial sums: as many warps that send as memory and fabric keep busy alike; more of them take loads from those who
/// add up. 8192 tokens, top-8 on two H200, rows of 14 KiB, by 3 to 8 warps in their best groups: 449, 399, 377, 385,
/// 403 and 408 us (local twin of five: 377). One group, so that tokens are complete early: 63 us for 1024 tokens, with
/// five groups 87. Rows of 4 KiB are short for that: 133 us by one group, 121 by two. Stores in bulk from shared
/// memory: 404 us.
///
/// Rows: one warp that sends, with small pieces and few of them on the way: what queues before the fabric delays the
/// loads of those who add up on the same multiprocessor. 8192 tokens, top-8 on two H200, of the drain rate: rows of 14
/// KiB 95.6%, by two warps 96.0%, in pieces of 2 KiB 94.6%; rows of 4 KiB 91.6%, by two warps 87.4%. With adders that
/// loaded half as much at once, rows of 14 KiB in pieces of 3.5, 7 and 14 KiB: 93, 92 and 89%.
void plan_combine(CombineLaunch& launch, const CombineTuning& tuning) {
  using moe_exchange::or_rule;
  const bool alone = launch.exchange.call.world == 1;
  const bool partial = launch.partial_sums != 0;
  launch.senders = alone ? 0 : std::clamp(or_rule(tuning.senders, partial ? 5 : 1), 1, most_moe_senders);
  const int row_warps = (launch.exchange.row_bytes + 2047) / 2048;  // four loads of each row a lane
  const int sender_groups = launch.senders / row_warps;
  launch.sender_groups = std::clamp(or_rule(tuning.sender_groups, sender_groups), 1, std::max(1, launch.senders));
  const int adders = combine_adders(launch.senders);
  launch.groups = std::clamp(or_rule(tuning.groups, adders / std::clamp(row_warps, 2, 5)), 1, adders);
  launch.told_together = std::max(1, or_rule(tuning.told_together, 1));
  if (partial) {  // sums leave from registers
    launch.ring = {};
    launch.ring_for_few = {};
    return;
  }
  launch.ring.under_way = std::clamp(or_rule(tuning.under_way, 2), 1, most_moe_stores_under_way);
  launch.ring.stages = std::clamp(or_rule(tuning.stages, 16), launch.ring.under_way + 1, most_moe_stages);
  const MoeRing asked = launch.ring;
  launch.ring_for_few = {};
  const std::int32_t row_bytes = launch.exchange.row_bytes;
  const auto shared_bytes = [&launch] { return CombineLayout::of(launch).bytes; };
  moe_exchange::fit_ring(launch.ring, row_bytes, or_rule(tuning.piece_bytes, 4096), shared_bytes);
  launch.ring_for_few = asked;  // in the memory of the other, and no more stages than fit beside its notes
  moe_exchange::fit_ring(launch.ring_for_few, row_bytes, or_rule(tuning.piece_bytes, row_bytes), shared_bytes);
}

int combine_shared_bytes(const CombineLaunch& launch) { return CombineLayout::of(launch).bytes; }

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
