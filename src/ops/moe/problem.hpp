#pragma once
// What the host knows of a mixture-of-experts layer without CUDA: rules and sizes.

#include <cstdint>
#include <string>

#include "base/fields.hpp"
#include "xstage/moe.hpp"

namespace xstage::moe {

inline constexpr int most_top_k = 16;
inline constexpr int most_experts_per_rank = 256;
/// The rows of an expert begin at a multiple of this in the rows of all of a rank's experts: no tile of 64 or 128 rows
/// belongs to two of them.
inline constexpr std::int64_t group_alignment = 128;

/// Every field of a plan, in the order of its members.
[[nodiscard]] fields::Table<Plan> plan_fields();

/// The plan with everything filled in that it leaves open. Throws InputError if it breaks a rule.
[[nodiscard]] Plan complete_plan(const Problem& problem, const Plan& plan, int world, int multiprocessors);

/// Throws InputError unless so many CTAs of a rank can count that many tokens; virtual ranks have few.
void check_issuers(const Problem& problem, int issuers);

/// What all ranks must agree on, in words.
[[nodiscard]] std::string statement(const Problem& problem, const Plan& plan);

/// Experts of all ranks together.
[[nodiscard]] inline int all_experts(const Problem& problem, int world) { return problem.experts_per_rank * world; }

}  // namespace xstage::moe
