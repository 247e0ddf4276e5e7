#pragma once
// What the host knows of an attention without CUDA: rules, plan, shapes.

#include <string>

#include "base/fields.hpp"
#include "fabric/call_parameters.hpp"
#include "ops/attention/schedule.hpp"
#include "xstage/attention.hpp"

namespace xstage::attention {

/// Of a tile: 64 query rows for each multiplying warpgroup, and the keys that they multiply at once.
inline constexpr int tile_rows = 192;
inline constexpr int block_keys = 128;
/// Rows of one arrival counter, and of one store.
inline constexpr int slab_rows = 64;

/// Each CTA has an epoch in the signal pad.
inline constexpr int most_issuers = static_cast<int>(kernels::CallPad::most_blocks);

/// Every field of a plan, in the order of its members.
[[nodiscard]] fields::Table<Plan> plan_fields();

/// What all ranks must agree on, in words.
[[nodiscard]] std::string statement(const Problem& problem, const Plan& plan);

/// The plan with everything filled in that it leaves open. Throws InputError if it breaks a rule.
[[nodiscard]] Plan complete_plan(const Problem& problem, const Plan& plan, int world, int multiprocessors);

/// Throws InputError unless these can be the flags of that problem's operands.
void check_arrivals(const Problem& problem, int world, const InputArrivals& arrivals);

/// The tiles of one rank.
[[nodiscard]] schedule::AttentionSchedule make_schedule(const Problem& problem, int rank, int world);

/// Counters of arrived slabs on each rank: none unless results go to their owners.
[[nodiscard]] std::int64_t slabs(const Problem& problem);

/// Bytes of a rank's result in the symmetric heap; of a twin, those of all ranks.
[[nodiscard]] std::size_t result_bytes(const Problem& problem, int rank, int world);

/// The same for every rank: the most that any of them needs, as a symmetric buffer has one size.
[[nodiscard]] std::size_t symmetric_result_bytes(const Problem& problem, int world);

}  // namespace xstage::attention
