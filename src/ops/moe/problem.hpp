#pragma once
// Rules and sizes of a mixture-of-experts layer, for host code without CUDA.

#include <cstdint>
#include <string>

#include "base/fields.hpp"
#include "xstage/moe.hpp"

namespace xstage::moe {

inline constexpr int most_top_k = 16;
inline constexpr int most_experts_per_rank = 256;
/// Alignment of the first row of an expert among the rows of all of a rank's experts, so that no tile of 64 or 128 rows
/// belongs to two of them.
inline constexpr std::int64_t group_alignment = 128;

/// Every field of a plan, in the order of its members.
[[nodiscard]] fields::Table<Plan> plan_fields();

/// The plan with every field filled in that it leaves to the rule. Throws InputError if it breaks a rule.
[[nodiscard]] Plan complete_plan(const Problem& problem, const Plan& plan, int world, int multiprocessors);

/// Throws InputError unless this number of CTAs can count the most tokens of a rank; virtual ranks have few CTAs.
void check_issuers(const Problem& problem, int issuers);

/// Text of everything that all ranks must agree on.
[[nodiscard]] std::string statement(const Problem& problem, const Plan& plan);

/// Experts of all ranks together.
[[nodiscard]] inline int all_experts(const Problem& problem, int world) { return problem.experts_per_rank * world; }

}  // namespace xstage::moe
