#pragma once
// Warps and rings of dispatch and combine: the rules for a plan's fields, and the launch parameters that follow from a
// plan. Pure arithmetic, the same on every rank.

#include <cstdint>

#include "ops/moe/device/parameters.hpp"
#include "xstage/moe.hpp"

namespace xstage::moe {

/// Warps of a CTA that send tokens.
[[nodiscard]] int dispatch_senders_by_rule(int world);
/// Warps of a CTA that copy what peers have sent, beside this many senders.
[[nodiscard]] int dispatch_copiers_by_rule(int world, int senders);
/// Warps of a CTA that send what its rank's experts computed.
[[nodiscard]] int combine_senders_by_rule(int world, Combine combine);
/// Groups of the warps that send partial sums; each sends one token at a time.
[[nodiscard]] int combine_sender_groups_by_rule(std::int64_t row_bytes, int senders);
/// Groups of the warps that add, beside this many senders; each adds up one token at a time.
[[nodiscard]] int combine_adder_groups_by_rule(std::int64_t row_bytes, int senders);

}  // namespace xstage::moe

namespace xstage::kernels {

/// Shared memory that a multiprocessor of compute capability 9.0 gives to one CTA.
inline constexpr std::int32_t most_exchange_shared_bytes = 227 * 1024;

/// Numbers of a dispatch, the same on every rank. The rule fills in those that are 0.
struct DispatchTuning {
  int senders = 0;         // warps of a CTA
  int copiers = 0;         // warps of a CTA
  int stages = 0;          // of each sender's ring, more than under_way
  int piece_bytes = 0;     // of a row, at most; a multiple of 16
  int under_way = 0;       // pieces that a warp stores at a time, 1 to most_moe_stores_under_way
  int told_together = 0;   // tokens of a CTA that share a fence
  int counted_by_all = 0;  // up to this many choices of a rank, each CTA counts all of them; -1: never
};

/// Numbers of a combine, the same on every rank. The rule fills in those that are 0.
struct CombineTuning {
  int senders = 0;        // warps of a CTA
  int stages = 0;         // of each sender's ring, more than under_way
  int piece_bytes = 0;    // of a row, at most; a multiple of 16
  int groups = 0;         // of the warps that add
  int under_way = 0;      // pieces that a warp stores at a time, 1 to most_moe_stores_under_way
  int told_together = 0;  // tokens of a CTA that share a fence
  int sender_groups = 0;  // of the warps that send partial sums
};

/// The numbers that a complete plan contains; the rules fill in the others.
[[nodiscard]] DispatchTuning dispatch_tuning(const moe::Plan& plan);
[[nodiscard]] CombineTuning combine_tuning(const moe::Plan& plan);

/// Fill in warps and rings of a launch: as much of what is asked for as warps and shared memory permit.
/// `launch.exchange` is complete, as is `partial_sums` of a combine.
void plan_dispatch(DispatchLaunch& launch, const DispatchTuning& tuning = {});
void plan_combine(CombineLaunch& launch, const CombineTuning& tuning = {});

}  // namespace xstage::kernels
