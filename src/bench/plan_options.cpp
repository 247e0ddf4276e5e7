#include "bench/plan_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <span>
#include <variant>

#include "attention/problem.hpp"
#include "files/csv.hpp"
#include "gemm/layout.hpp"
#include "xstage/error.hpp"

namespace xstage::bench {

namespace {

/// Where a field's value lies. No plan has members of all these types.
template <typename Values>
using Place = std::variant<int Values::*, double Values::*, GatherPath Values::*, AllReduceAlgorithm Values::*,
                           StorePath Values::*>;

template <typename Values>
struct Field {
  std::string_view name;
  Place<Values> place;
};

constexpr Field<Plan> gemm_fields[] = {{"window", &Plan::window},
                                       {"store_rows", &Plan::store_rows},
                                       {"store_interval_ns", &Plan::store_interval_ns},
                                       {"push_interval_ns", &Plan::push_interval_ns},
                                       {"push_warps", &Plan::push_warps},
                                       {"staging_chunks", &Plan::staging_chunks},
                                       {"staging_over_ring", &Plan::staging_over_ring},
                                       {"stage_blocks", &Plan::stage_blocks},
                                       {"tile_columns", &Plan::tile_columns},
                                       {"cluster_rows", &Plan::cluster_rows},
                                       {"cluster_columns", &Plan::cluster_columns},
                                       {"stages", &Plan::stages},
                                       {"issuers", &Plan::issuers},
                                       {"group_rows", &Plan::group_rows},
                                       {"chunk_rows", &Plan::chunk_rows},
                                       {"chunk_depth", &Plan::chunk_depth},
                                       {"drain_gb_per_s", &Plan::drain_gb_per_s},
                                       {"gather", &Plan::gather},
                                       {"all_reduce", &Plan::all_reduce}};

constexpr Field<attention::Plan> attention_fields[] = {{"issuers", &attention::Plan::issuers},
                                                       {"split", &attention::Plan::split},
                                                       {"store_interval_ns", &attention::Plan::store_interval_ns},
                                                       {"drain_gb_per_s", &attention::Plan::drain_gb_per_s},
                                                       {"store_path", &attention::Plan::store_path}};
/// So many of them, the first ones, say how attention is computed; the others are about stores to peers.
constexpr std::size_t fields_of_computing = 2;

/// No list on a command line is longer.
constexpr std::size_t most_parts = 1000;

// ---- Values ---------------------------------------------------------------------------------------------------------

template <typename Value>
struct Word {
  std::string_view text;
  Value value;
};

constexpr std::array<Word<GatherPath>, 2> words_for(GatherPath /*type*/) {
  return {{{"push", GatherPath::push}, {"copy_engine", GatherPath::copy_engine}}};
}

constexpr std::array<Word<AllReduceAlgorithm>, 2> words_for(AllReduceAlgorithm /*type*/) {
  return {{{"one_shot", AllReduceAlgorithm::one_shot}, {"two_shot", AllReduceAlgorithm::two_shot}}};
}

constexpr std::array<Word<StorePath>, 2> words_for(StorePath /*type*/) {
  return {{{"bulk", StorePath::bulk}, {"store16", StorePath::store16}}};
}

template <typename Number>
bool read_number(std::string_view text, Number& value) {
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stopped == end;
}

/// Each of these: empty, or the rule that the text breaks.
std::string read(std::string_view text, int& value) {
  return read_number(text, value) ? "" : "the value must be a whole number of 32 bits";
}

std::string read(std::string_view text, double& value) {
  return read_number(text, value) && std::isfinite(value) ? "" : "the value must be a finite number";
}

template <typename Value>
std::string read(std::string_view text, Value& value) {
  std::string known;
  for (const auto& word : words_for(value)) {
    if (word.text == text) {
      value = word.value;
      return "";
    }
    known += fmt::format("{}{}", known.empty() ? "" : " or ", word.text);
  }
  return fmt::format("the value must be {}", known);
}

Json value_json(int value) { return value; }
Json value_json(double value) { return number(value); }

template <typename Value>
Json value_json(Value value) {
  constexpr auto words = words_for(Value{});
  return std::find_if(words.begin(), words.end(), [&](const auto& word) { return word.value == value; })->text;
}

// ---- Fields ---------------------------------------------------------------------------------------------------------

template <typename Values>
using Fields = std::span<const Field<Values>>;

template <typename Values>
std::string names_of(Fields<Values> fields) {
  std::string names;
  for (const Field<Values>& field : fields) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", field.name);
  }
  return names;
}

template <typename Values>
const Field<Values>* find_field(Fields<Values> fields, std::string_view name) {
  const auto found =
      std::find_if(fields.begin(), fields.end(), [&](const Field<Values>& field) { return field.name == name; });
  return found == fields.end() ? nullptr : &*found;
}

template <typename Values>
bool names_field(const PlanOverrides<Values>& overrides, std::string_view name) {
  return std::find(overrides.named.begin(), overrides.named.end(), name) != overrides.named.end();
}

/// One KEY=VALUE, into `overrides`. Empty, or what is wrong with it.
template <typename Values>
std::string add_part(Fields<Values> fields, std::string_view part, PlanOverrides<Values>& overrides) {
  const std::size_t equals = part.find('=');
  const Field<Values>* field = find_field(fields, part.substr(0, equals));
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
  return std::visit([&](auto member) { return read(part.substr(equals + 1), overrides.values.*member); }, field->place);
}

template <typename Values>
PlanOverrides<Values> parse(Fields<Values> fields, std::string_view text) {
  PlanOverrides<Values> overrides;
  for (const std::string_view part : files::split(text, ',', most_parts)) {
    const std::string complaint = add_part(fields, part, overrides);
    if (!complaint.empty()) {
      throw InputError(fmt::format("'{}': {}; the fields are {}", part, complaint, names_of(fields)));
    }
  }
  return overrides;
}

/// Those of `fields` that are named.
template <typename Values>
void set_named(Fields<Values> fields, const PlanOverrides<Values>& overrides, Values& plan) {
  for (const Field<Values>& field : fields) {
    if (names_field(overrides, field.name)) {
      std::visit([&](auto member) { plan.*member = overrides.values.*member; }, field.place);
    }
  }
}

template <typename Values>
Json named_json(Fields<Values> fields, const PlanOverrides<Values>& overrides) {
  Json json = Json::object();
  for (const std::string_view name : overrides.named) {
    json[std::string(name)] =
        std::visit([&](auto member) { return value_json(overrides.values.*member); }, find_field(fields, name)->place);
  }
  return json;
}

// ---- Plans ----------------------------------------------------------------------------------------------------------

/// Pauses between stores are computed from the rate: at a lower one their nanoseconds would not fit their field.
constexpr double least_drain_gb_per_s = 0.1;

void check_drain(double drain_gb_per_s) {
  if (drain_gb_per_s > 0 && drain_gb_per_s < least_drain_gb_per_s) {
    throw InputError(
        fmt::format("plan: drain_gb_per_s is {}: it must be at least {}", drain_gb_per_s, least_drain_gb_per_s));
  }
}

/// What gemm::complete_plan multiplies and divides by before it looks at it, or does not look at.
void check_before_completing(const Plan& plan) {
  for (const int extent : {plan.cluster_rows, plan.cluster_columns}) {
    if (extent < 1 || extent > 2) {
      throw InputError(fmt::format("plan: cluster_rows x cluster_columns is {} x {}: a cluster has one or two CTAs",
                                   plan.cluster_rows, plan.cluster_columns));
    }
  }
  if (plan.chunk_rows < 1) {
    throw InputError(fmt::format("plan: chunk_rows is {}: it must be a multiple of 128", plan.chunk_rows));
  }
  if (plan.staging_over_ring < -1 || plan.staging_over_ring > 1) {
    throw InputError(
        fmt::format("plan: staging_over_ring is {}: it must be 0 or 1, or -1 for the rule", plan.staging_over_ring));
  }
}

/// What gemm::complete_plan fills in, whatever the rule has chosen before it.
void open_completed_fields(Plan& plan) {
  plan.store_interval_ns = -1;
  plan.push_interval_ns = -1;
  plan.staging_over_ring = -1;
  plan.stage_blocks = 0;
  plan.stages = 0;
  plan.issuers = 0;
  plan.push_warps = 0;
}

/// What the rule has chosen to suit a choice that is another one now, and would break a rule or waste memory.
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

std::string gemm_plan_fields() { return names_of(Fields<Plan>(gemm_fields)); }

std::string attention_plan_fields() { return names_of(Fields<attention::Plan>(attention_fields)); }

GemmPlanOverrides parse_gemm_plan(std::string_view text) { return parse(Fields<Plan>(gemm_fields), text); }

AttentionPlanOverrides parse_attention_plan(std::string_view text) {
  return parse(Fields<attention::Plan>(attention_fields), text);
}

Plan choose_plan(const gemm::Problem& problem, int world, int multiprocessors,
                 const std::optional<GemmPlanOverrides>& overrides) {
  const Plan picked = gemm::make_plan(problem, world, multiprocessors);
  if (!overrides) {
    return picked;
  }
  Plan plan = picked;
  open_completed_fields(plan);
  set_named(Fields<Plan>(gemm_fields), *overrides, plan);
  adapt_choices(problem, *overrides, picked, plan);
  check_drain(plan.drain_gb_per_s);
  check_before_completing(plan);
  return gemm::complete_plan(problem, plan, world, multiprocessors);
}

attention::Plan choose_plan(const attention::Problem& problem, int world, int multiprocessors,
                            const std::optional<AttentionPlanOverrides>& overrides) {
  const attention::Plan picked = attention::make_plan(problem, world, multiprocessors);
  if (!overrides) {
    return picked;
  }
  attention::Plan plan = picked;
  plan.issuers = 0;
  plan.split = -1;
  plan.store_interval_ns = -1;
  const Fields<attention::Plan> fields(attention_fields);
  const bool stores = problem.destination != attention::Destination::local;
  set_named(stores ? fields : fields.first(fields_of_computing), *overrides, plan);
  check_drain(plan.drain_gb_per_s);
  return attention::complete_plan(problem, plan, world, multiprocessors);
}

Json plan_overrides_json(const GemmPlanOverrides& overrides) {
  return named_json(Fields<Plan>(gemm_fields), overrides);
}

Json plan_overrides_json(const AttentionPlanOverrides& overrides) {
  return named_json(Fields<attention::Plan>(attention_fields), overrides);
}

}  // namespace xstage::bench
