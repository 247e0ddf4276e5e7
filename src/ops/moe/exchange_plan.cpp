#include "ops/moe/exchange_plan.hpp"

#include <algorithm>

namespace xstage::moe {

using kernels::combine_adders;
using kernels::dispatch_warps;
using kernels::most_moe_senders;

namespace {

/// Number of warps that add or send a row together: each lane loads it in four pieces.
int warps_of_a_row(std::int64_t row_bytes) { return static_cast<int>((row_bytes + 2047) / 2048); }

}  // namespace

/// Two senders with few pieces in flight: the fabric is full all the same, and its queue delays all other loads and
/// flags. Measured with 8192 tokens, top-8 on two H200, rows of 4 and 14 KiB: 115 and 350 us; by three senders 117 and
/// 356, by one 126 and 351; with two pieces in flight 116 and 352, in pieces of 2 KiB 118 and 357; with flags for four
/// tokens 116 and 354.
int dispatch_senders_by_rule(int world) { return world == 1 ? std::min(most_moe_senders, dispatch_warps) : 2; }

int dispatch_copiers_by_rule(int world, int senders) {
  return world == 1 ? 0 : std::min(8, dispatch_warps - 1 - senders);
}

/// For partial sums, as many sending warps as keep memory and fabric equally busy; more of them take loads from the
/// warps that add up. Measured with 8192 tokens, top-8 on two H200, rows of 14 KiB, by 3 to 8 warps in their best
/// groups: 449, 399, 377, 385, 403 and 408 us (local twin of five: 377). One group, so that tokens are complete early:
/// 63 us for 1024 tokens, with five groups 87. Rows of 4 KiB are short for that: 133 us by one group, 121 by two. Bulk
/// stores from shared memory: 404 us.
///
/// For rows, one sending warp with small pieces and few of them in flight: what queues before the fabric delays the
/// loads of the warps that add up on the same multiprocessor. Measured with 8192 tokens, top-8 on two H200, relative to
/// the drain rate: rows of 14 KiB 95.6%, by two warps 96.0%, in pieces of 2 KiB 94.6%; rows of 4 KiB 91.6%, by two
/// warps 87.4%. With adders that loaded half as much at once, rows of 14 KiB in pieces of 3.5, 7 and 14 KiB: 93, 92 and
/// 89%.
int combine_senders_by_rule(int world, Combine combine) {
  return world == 1 ? 0 : combine == Combine::partial_sums ? 5 : 1;
}

int combine_sender_groups_by_rule(std::int64_t row_bytes, int senders) {
  return std::max(1, senders / warps_of_a_row(row_bytes));
}

int combine_adder_groups_by_rule(std::int64_t row_bytes, int senders) {
  return std::max(1, combine_adders(senders) / std::clamp(warps_of_a_row(row_bytes), 2, 5));
}

}  // namespace xstage::moe

namespace xstage::kernels {

namespace {

int or_rule(int value, int rule) { return value == 0 ? rule : value; }

/// The largest piece, at most `most_bytes`, that divides a row evenly.
std::int32_t even_piece(std::int32_t row_bytes, std::int32_t most_bytes) {
  constexpr std::int32_t unit = 16;
  const std::int32_t most = std::max(unit, most_bytes / unit * unit);
  const std::int32_t pieces = (row_bytes + most - 1) / most;
  return ((row_bytes + pieces - 1) / pieces + unit - 1) / unit * unit;
}

/// Fits a ring of a launch into shared memory beside everything else that the launch has there: by a shorter ring
/// first, then by shorter pieces.
template <class Layout, class Launch>
void fit_ring(MoeRing& ring, std::int32_t piece, const Launch& launch) {
  for (;;) {
    ring.stage_bytes = even_piece(launch.exchange.row_bytes, piece);
    if (Layout::of(launch).bytes <= most_exchange_shared_bytes) {
      return;
    }
    if (ring.stages > ring.under_way + 1) {
      --ring.stages;
    } else {
      piece = ring.stage_bytes - 16;
    }
  }
}

moe::Combine what_crosses(const CombineLaunch& launch) {
  return launch.partial_sums != 0 ? moe::Combine::partial_sums : moe::Combine::rows;
}

/// Plans partial sums, which are stored from registers.
void plan_partial_sums(CombineLaunch& launch, const CombineTuning& tuning) {
  const int rule = moe::combine_sender_groups_by_rule(launch.exchange.row_bytes, launch.senders);
  launch.sender_groups = std::clamp(or_rule(tuning.sender_groups, rule), 1, std::max(1, launch.senders));
  launch.ring = {};
  launch.ring_for_few = {};
}

void plan_rows(CombineLaunch& launch, const CombineTuning& tuning) {
  launch.sender_groups = 0;
  launch.ring.under_way = std::clamp(or_rule(tuning.under_way, 2), 1, most_moe_stores_under_way);
  launch.ring.stages = std::clamp(or_rule(tuning.stages, 16), launch.ring.under_way + 1, most_moe_stages);
  const MoeRing asked = launch.ring;
  launch.ring_for_few = {};
  fit_ring<CombineLayout>(launch.ring, or_rule(tuning.piece_bytes, 4096), launch);
  launch.ring_for_few = asked;  // uses the memory of the other ring, with no more stages than fit beside its notes
  fit_ring<CombineLayout>(launch.ring_for_few, or_rule(tuning.piece_bytes, launch.exchange.row_bytes), launch);
}

}  // namespace

DispatchTuning dispatch_tuning(const moe::Plan& plan) {
  DispatchTuning tuning;
  tuning.senders = plan.dispatch_senders;
  tuning.copiers = plan.dispatch_copiers;
  return tuning;
}

CombineTuning combine_tuning(const moe::Plan& plan) {
  CombineTuning tuning;
  tuning.senders = plan.combine_senders;
  tuning.groups = plan.combine_adder_groups;
  tuning.sender_groups = plan.combine_sender_groups;
  return tuning;
}

void plan_dispatch(DispatchLaunch& launch, const DispatchTuning& tuning) {
  const int world = launch.exchange.call.world;
  const bool alone = world == 1;
  const int most_senders = alone ? dispatch_warps : dispatch_warps - 2;  // one copier and one warp that signals peers
  launch.senders = std::clamp(or_rule(tuning.senders, moe::dispatch_senders_by_rule(world)), 1,
                              std::min(most_moe_senders, most_senders));
  launch.copiers = 0;
  if (!alone) {
    const int rule = moe::dispatch_copiers_by_rule(world, launch.senders);
    launch.copiers = std::clamp(or_rule(tuning.copiers, rule), 1, dispatch_warps - 1 - launch.senders);
    // Each lane of a copier keeps one warp of a peer.
    launch.senders = std::min(launch.senders, 32 * launch.copiers / (world - 1));
  }
  launch.told_together = std::max(1, or_rule(tuning.told_together, 2));
  launch.counted_by_all = std::max(0, or_rule(tuning.counted_by_all, 4096));
  launch.ring.under_way = std::clamp(or_rule(tuning.under_way, 1), 1, most_moe_stores_under_way);
  launch.ring.stages = std::clamp(or_rule(tuning.stages, 8), launch.ring.under_way + 1, most_moe_stages);
  fit_ring<DispatchLayout>(launch.ring, or_rule(tuning.piece_bytes, 8192), launch);
}

void plan_combine(CombineLaunch& launch, const CombineTuning& tuning) {
  const int world = launch.exchange.call.world;
  const int senders = or_rule(tuning.senders, moe::combine_senders_by_rule(world, what_crosses(launch)));
  launch.senders = world == 1 ? 0 : std::clamp(senders, 1, most_moe_senders);
  const int rule = moe::combine_adder_groups_by_rule(launch.exchange.row_bytes, launch.senders);
  launch.groups = std::clamp(or_rule(tuning.groups, rule), 1, combine_adders(launch.senders));
  launch.told_together = std::max(1, or_rule(tuning.told_together, 1));
  if (launch.partial_sums != 0) {
    plan_partial_sums(launch, tuning);
  } else {
    plan_rows(launch, tuning);
  }
}

}  // namespace xstage::kernels
