#pragma once
// Plans on the command line and in result files. `--plan KEY=VALUE,...` of `xstage bench` sets fields of a plan that
// the rule would fill in, for users who tune a kernel on their own node.

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

/// The fields in `named`, with their values in `values`. All other fields of `values` are ignored.
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

/// Throws InputError for a field that is unknown or named twice, and for a value that is missing or cannot be parsed.
/// It does not check whether a value suits a problem.
[[nodiscard]] GemmPlanOverrides parse_gemm_plan(std::string_view text);
[[nodiscard]] AttentionPlanOverrides parse_attention_plan(std::string_view text);

/// The rule's plan with the named fields set, and with dependent fields completed anew: a number of stages that no
/// longer fits does not stay. Naming the value that the rule picks changes nothing. Throws InputError if the plan
/// breaks a rule.
[[nodiscard]] Plan choose_plan(const gemm::Problem& problem, int world, int multiprocessors,
                               const std::optional<GemmPlanOverrides>& overrides);

/// The same for attention; where results stay local, fields about stores have no effect.
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
