#pragma once
// Rules, plan and shapes of an attention, for host code without CUDA.

#include <string>

#include "base/fields.hpp"
#include "fabric/call_parameters.hpp"
#include "ops/attention/schedule.hpp"
#include "xstage/attention.hpp"

namespace xstage::attention {

/// Query rows of a tile, 64 for each multiplying warpgroup, and keys that they multiply at once.
inline constexpr int tile_rows = 192;
inline constexpr int block_keys = 128;
/// Rows of one arrival counter, and of one store.
inline constexpr int slab_rows = 64;

/// Each CTA has an epoch in the signal pad.
inline constexpr int most_issuers = static_cast<int>(kernels::CallPad::most_blocks);

/// Every field of a plan, in the order of its members.
[[nodiscard]] fields::Table<Plan> plan_fields();

/// Text of everything that all ranks must agree on.
[[nodiscard]] std::string statement(const Problem& problem, const Plan& plan);

/// The plan with every field filled in that it leaves to the rule. Throws InputError if it breaks a rule.
[[nodiscard]] Plan complete_plan(const Problem& problem, const Plan& plan, int world, int multiprocessors);

/// Throws InputError unless these can be the arrival flags of the problem's operands.
void check_arrivals(const Problem& problem, int world, const InputArrivals& arrivals);

/// The tiles of one rank.
[[nodiscard]] schedule::AttentionSchedule make_schedule(const Problem& problem, int rank, int world);

/// Arrival counters of slabs on each rank; 0 unless results go to their owners.
[[nodiscard]] std::int64_t slabs(const Problem& problem);

/// Bytes of a rank's result in the symmetric heap; of a twin, those of all ranks.
[[nodiscard]] std::size_t result_bytes(const Problem& problem, int rank, int world);

/// Bytes of the symmetric buffer, which has one size: the maximum over ranks.
[[nodiscard]] std::size_t symmetric_result_bytes(const Problem& problem, int world);

}  // namespace xstage::attention
