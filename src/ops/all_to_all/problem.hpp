#pragma once
// Rules, plan and shapes of an all-to-all, for host code without CUDA.

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/fields.hpp"
#include "fabric/call_parameters.hpp"
#include "ops/all_to_all/device/layout.hpp"
#include "ops/all_to_all/schedule.hpp"
#include "xstage/all_to_all.hpp"

namespace xstage::all_to_all {

inline constexpr int element_bytes = 2;
inline constexpr int most_shared_bytes = 224 * 1024;

/// Each CTA has an epoch in the signal pad.
inline constexpr int most_issuers = static_cast<int>(kernels::CallPad::most_blocks);

/// Every field of a plan, in the order of its members.
[[nodiscard]] fields::Table<Plan> plan_fields();

/// Text of everything that all ranks must agree on.
[[nodiscard]] std::string statement(const Problem& problem, const Plan& plan);

/// The plan with every field filled in that it leaves to the rule. Throws InputError if it breaks a rule.
[[nodiscard]] Plan complete_plan(const Problem& problem, const Plan& plan, int world, int multiprocessors);

/// The same plan for a launch of `issuers` CTAs, fewer with virtual ranks; the same fraction of them stores to peers.
[[nodiscard]] Plan with_issuers(const Plan& plan, int issuers);

/// The chunks of one rank for a complete plan.
[[nodiscard]] schedule::AllToAllSchedule make_schedule(const Problem& problem, const Plan& plan, int rank, int world);

/// Bytes of one stage in shared memory for a complete plan.
[[nodiscard]] int stage_bytes(const Problem& problem, const Plan& plan, int world);

/// Bytes of a rank's result.
[[nodiscard]] std::size_t result_bytes(const Problem& problem, int rank, int world);

}  // namespace xstage::all_to_all
