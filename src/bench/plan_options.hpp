#pragma once
// Plans on the command line and in result files. `--plan KEY=VALUE,...` of `xstage bench` sets fields of a plan instead
// of what the rule picks, for whoever tunes a kernel on his own node.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/row_fields.hpp"
#include "xstage/all_to_all.hpp"
#include "xstage/attention.hpp"
#include "xstage/gemm.hpp"
#include "xstage/moe.hpp"
#include "xstage/plan.hpp"

namespace xstage::bench {

/// The fields in `named`, with the values that they have in `values`. What else stands in `values` counts for nothing.
template <typename Values>
struct PlanOverrides {
  Values values;
  std::vector<std::string_view> named;  // in the order of the command line
};

using GemmPlanOverrides = PlanOverrides<Plan>;
using AttentionPlanOverrides = PlanOverrides<attention::Plan>;

/// The fields that may be named, comma-separated.
[[nodiscard]] std::string gemm_plan_fields();
[[nodiscard]] std::string attention_plan_fields();

/// Throws InputError for a field that is unknown or named twice, and for a value that is missing or cannot be read.
/// Whether a value suits a problem is not asked here.
[[nodiscard]] GemmPlanOverrides parse_gemm_plan(std::string_view text);
[[nodiscard]] AttentionPlanOverrides parse_attention_plan(std::string_view text);

/// The plan that the rule picks, with the named fields in it and with what follows from them completed anew: a number
/// of stages that no longer fits does not stay. Naming what the rule has picked changes nothing. Throws InputError if
/// the plan breaks a rule.
[[nodiscard]] Plan choose_plan(const gemm::Problem& problem, int world, int multiprocessors,
                               const std::optional<GemmPlanOverrides>& overrides);

/// The same; where results stay local the fields about stores count for nothing.
[[nodiscard]] attention::Plan choose_plan(const attention::Problem& problem, int world, int multiprocessors,
                                          const std::optional<AttentionPlanOverrides>& overrides);

/// The named fields as an object, for result files.
[[nodiscard]] Json plan_overrides_json(const GemmPlanOverrides& overrides);
[[nodiscard]] Json plan_overrides_json(const AttentionPlanOverrides& overrides);

/// All fields of a plan as an object, for the rows of result files.
[[nodiscard]] Json plan_json(const Plan& plan);
[[nodiscard]] Json plan_json(const attention::Plan& plan);
[[nodiscard]] Json plan_json(const all_to_all::Plan& plan);
[[nodiscard]] Json plan_json(const moe::Plan& plan);

}  // namespace xstage::bench
