#include "bench/plan_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <variant>

#include "base/fields.hpp"
#include "files/csv.hpp"
#include "ops/all_to_all/problem.hpp"
#include "ops/attention/problem.hpp"
#include "ops/gemm/layout.hpp"
#include "ops/moe/problem.hpp"
#include "xstage/error.hpp"

namespace xstage::bench {

namespace {

/// Upper bound of the parts of a list on a command line.
constexpr std::size_t most_parts = 1000;

template <typename Values>
bool names_field(const PlanOverrides<Values>& overrides, std::string_view name) {
  return std::find(overrides.named.begin(), overrides.named.end(), name) != overrides.named.end();
}

/// Parses one KEY=VALUE into `overrides`. Returns an empty string, or what is wrong with it.
template <typename Values>
std::string add_part(fields::Table<Values> table, std::string_view part, PlanOverrides<Values>& overrides) {
  const std::size_t equals = part.find('=');
  const fields::Field<Values>* field = fields::find(table, part.substr(0, equals));
  if (field == nullptr) {
    return "there is no such field";
  }
  if (names_field(overrides, field->name)) {
    return "the field is named twice";
  }
  if (equals == std::string_view::npos || equals + 1 == part.size()) {
    return fmt::format("the value is missing ({}=VALUE)", field->name);
  }
  overrides.named.push_back(field->name);
  return fields::read(*field, part.substr(equals + 1), overrides.values);
}

template <typename Values>
PlanOverrides<Values> parse(fields::Table<Values> table, std::string_view text) {
  PlanOverrides<Values> overrides;
  for (const std::string_view part : files::split(text, ',', most_parts)) {
    const std::string complaint = add_part(table, part, overrides);
    if (!complaint.empty()) {
      throw InputError(fmt::format("'{}': {}; the fields are {}", part, complaint, fields::names(table)));
    }
  }
  return overrides;
}

/// The named fields for which `counts` holds.
template <typename Values, typename Counts>
void set_named(fields::Table<Values> table, const PlanOverrides<Values>& overrides, Values& plan, Counts&& counts) {
  for (const std::string_view name : overrides.named) {
    if (counts(name)) {
      fields::copy(*fields::find(table, name), overrides.values, plan);
    }
  }
}

Json value_json(const fields::Value& value) {
  const auto* real = std::get_if<double>(&value);
  return real != nullptr ? number(*real) : std::visit([](const auto& typed) { return Json(typed); }, value);
}

template <typename Values>
Json named_json(fields::Table<Values> table, const PlanOverrides<Values>& overrides) {
  Json json = Json::object();
  for (const std::string_view name : overrides.named) {
    json[std::string(name)] = value_json(fields::value_of(*fields::find(table, name), overrides.values));
  }
  return json;
}

template <typename Values>
Json all_json(fields::Table<Values> table, const Values& plan) {
  Json json = Json::object();
  for (const fields::Field<Values>& field : table) {
    json[std::string(field.name)] = value_json(fields::value_of(field, plan));
  }
  return json;
}

// ---- Plans ----------------------------------------------------------------------------------------------------------

/// Resets choices that the rule made to suit a field that the user has changed: they would break a rule or waste
/// memory.
void adapt_choices(const gemm::Problem& problem, const GemmPlanOverrides& overrides, const Plan& picked, Plan& plan) {
  const auto is_free = [&](std::string_view name) { return !names_field(overrides, name); };
  const bool one_shot = problem.operation == gemm::Operation::all_reduce && !problem.fp32_partials &&
                        plan.all_reduce == AllReduceAlgorithm::one_shot;
  if (one_shot && is_free("tile_columns")) {
    plan.tile_columns = std::min(plan.tile_columns, 128);
  }
  if (plan.tile_columns != picked.tile_columns && is_free("staging_chunks")) {
    plan.staging_chunks = 0;
  }
  if (plan.cluster_columns == 2 && is_free("cluster_rows")) {
    plan.cluster_rows = 1;
  } else if (plan.cluster_rows == 2 && is_free("cluster_columns")) {
    plan.cluster_columns = 1;
  }
}

}  // namespace

std::string gemm_plan_fields() { return fields::names(gemm::plan_fields()); }

std::string attention_plan_fields() { return fields::names(attention::plan_fields()); }

GemmPlanOverrides parse_gemm_plan(std::string_view text) { return parse(gemm::plan_fields(), text); }

AttentionPlanOverrides parse_attention_plan(std::string_view text) { return parse(attention::plan_fields(), text); }

Plan choose_plan(const gemm::Problem& problem, int world, int multiprocessors,
                 const std::optional<GemmPlanOverrides>& overrides) {
  const Plan picked = gemm::make_plan(problem, world, multiprocessors);
  if (!overrides) {
    return picked;
  }
  Plan plan = picked;
  fields::leave_to_rules(gemm::plan_fields(), plan);
  // The rule picks these two fields for the problem; completing the plan would pick others.
  plan.staging_chunks = picked.staging_chunks;
  plan.chunk_depth = picked.chunk_depth;
  set_named(gemm::plan_fields(), *overrides, plan, [](std::string_view) { return true; });
  adapt_choices(problem, *overrides, picked, plan);
  return gemm::complete_plan(problem, plan, world, multiprocessors);
}

attention::Plan choose_plan(const attention::Problem& problem, int world, int multiprocessors,
                            const std::optional<AttentionPlanOverrides>& overrides) {
  attention::Plan plan = attention::make_plan(problem, world, multiprocessors);
  if (!overrides) {
    return plan;
  }
  fields::leave_to_rules(attention::plan_fields(), plan);
  const bool stores = problem.destination != attention::Destination::local;
  set_named(attention::plan_fields(), *overrides, plan,
            [stores](std::string_view name) { return stores || name == "issuers" || name == "split"; });
  return attention::complete_plan(problem, plan, world, multiprocessors);
}

Json plan_overrides_json(const GemmPlanOverrides& overrides) { return named_json(gemm::plan_fields(), overrides); }

Json plan_overrides_json(const AttentionPlanOverrides& overrides) {
  return named_json(attention::plan_fields(), overrides);
}

Json plan_json(const Plan& plan) {
  Json json = all_json(gemm::plan_fields(), plan);
  json["cluster"] = fmt::format("{}x{}", plan.cluster_rows, plan.cluster_columns);  // in the format of older files
  return json;
}

Json plan_json(const attention::Plan& plan) { return all_json(attention::plan_fields(), plan); }

Json plan_json(const all_to_all::Plan& plan) { return all_json(all_to_all::plan_fields(), plan); }

Json plan_json(const moe::Plan& plan) { return all_json(moe::plan_fields(), plan); }

}  // namespace xstage::bench
