#pragma once
// Warps and rings of dispatch and combine: the rules behind a plan's fields, and what a launch makes of them. Pure
// arithmetic, the same on every rank.

#include <cstdint>

#include "ops/moe/device/parameters.hpp"
#include "xstage/moe.hpp"

namespace xstage::moe {

/// Warps of a CTA that send tokens.
[[nodiscard]] int dispatch_senders_by_rule(int world);
/// Warps of a CTA that copy what peers have sent, beside so many senders.
[[nodiscard]] int dispatch_copiers_by_rule(int world, int senders);
/// Warps of a CTA that send what its rank's experts computed.
[[nodiscard]] int combine_senders_by_rule(int world, Combine combine);
/// Groups of those that send partial sums; each has a token at a time.
[[nodiscard]] int combine_sender_groups_by_rule(std::int64_t row_bytes, int senders);
/// Groups of the warps that add, beside so many senders; each has a token at a time.
[[nodiscard]] int combine_adder_groups_by_rule(std::int64_t row_bytes, int senders);

}  // namespace xstage::moe

namespace xstage::kernels {

/// What a multiprocessor of compute capability 9.0 gives one CTA.
inline constexpr std::int32_t most_exchange_shared_bytes = 227 * 1024;

/// Numbers of a dispatch; 0: by rule. The same on every rank.
struct DispatchTuning {
  int senders = 0;         // warps of a CTA
  int copiers = 0;         // warps of a CTA
  int stages = 0;          // of each sender's ring, more than under_way
  int piece_bytes = 0;     // of a row, at most; a multiple of 16
  int under_way = 0;       // pieces that a warp stores at a time, 1 to most_moe_stores_under_way
  int told_together = 0;   // tokens of a CTA that share a fence
  int counted_by_all = 0;  // up to so many choices of a rank each CTA counts all of them; -1: never
};

/// Numbers of a combine; 0: by rule. The same on every rank.
struct CombineTuning {
  int senders = 0;        // warps of a CTA
  int stages = 0;         // of each sender's ring, more than under_way
  int piece_bytes = 0;    // of a row, at most; a multiple of 16
  int groups = 0;         // of the warps that add
  int under_way = 0;      // pieces that a warp stores at a time, 1 to most_moe_stores_under_way
  int told_together = 0;  // tokens of a CTA that share a fence
  int sender_groups = 0;  // of the warps that send partial sums
};

/// What a complete plan says of them; the rest is up to the rules.
[[nodiscard]] DispatchTuning dispatch_tuning(const moe::Plan& plan);
[[nodiscard]] CombineTuning combine_tuning(const moe::Plan& plan);

/// Fill in warps and rings: as much of what is asked for as warps and shared memory are there. `launch.exchange` is
/// complete, as is `partial_sums` of a combine.
void plan_dispatch(DispatchLaunch& launch, const DispatchTuning& tuning = {});
void plan_combine(CombineLaunch& launch, const CombineTuning& tuning = {});

}  // namespace xstage::kernels
