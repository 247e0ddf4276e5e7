#include "ops/attention/bench/rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "ops/attention/problem.hpp"

namespace xstage::bench {

namespace {

constexpr const char* plain = "attention";

Json key_of(const AttentionCell& cell) {
  const attention::Problem& problem = cell.problem;
  return {{"sequence", problem.rows},     {"heads", problem.heads},   {"kv_heads", problem.kv_heads},
          {"head_dim", problem.head_dim}, {"causal", problem.causal}, {"ranks", cell.ranks}};
}

/// 12 heads a rank at 4k, 16k and 64k, alone and fused.
bool in_readme(const AttentionCell& cell, const AttentionVariant& variant) {
  constexpr std::array<std::int64_t, 3> shown{4096, 16384, 65536};
  constexpr int heads_of_readme = 12;
  const attention::Problem& problem = cell.problem;
  const bool is_plain = !problem.causal && problem.head_dim == 128 && problem.kv_heads == problem.heads &&
                        problem.heads == heads_of_readme * cell.ranks;
  return is_plain && std::find(shown.begin(), shown.end(), problem.rows) != shown.end() &&
         (variant.name == plain || variant.name == "fused");
}

RowHead row_head(const AttentionCell& cell, const AttentionVariant& variant, int multiprocessors,
                 const std::optional<AttentionPlanOverrides>& overrides) {
  RowHead row{key_of(cell), shape_text(cell), std::string(variant.name), Json::object(), in_readme(cell, variant)};
  if (variant.computes) {
    const int world = variant.destination == attention::Destination::local ? 1 : cell.ranks;
    row.plans["plan"] = plan_json(choose_plan(problem_of(cell, variant), world, multiprocessors, overrides));
  }
  if (variant.exchanges) {
    const Json plan = plan_json(all_to_all::make_plan(exchange_of(cell), cell.ranks, multiprocessors));
    if (!variant.computes) {
      row.plans["plan"] = plan;
    }
    row.plans["all_to_all_plan"] = plan;
  }
  return row;
}

}  // namespace

std::string why_no_spans(const std::vector<AttentionVariant>& variants, bool trace) {
  const std::span<const AttentionVariant> named(variants);
  const auto is_recorded = [](const AttentionVariant& variant) { return variant.recorded; };
  if (std::none_of(variants.begin(), variants.end(), is_recorded)) {
    return fmt::format("none of the variants {} is recorded: {} are", all_variants(named),
                       variant_names(std::span<const AttentionVariant>(attention_variants), is_recorded));
  }
  const bool has_fused = std::any_of(variants.begin(), variants.end(),
                                     [](const AttentionVariant& variant) { return variant.name == "fused"; });
  return trace && !has_fused
             ? fmt::format("a trace is of the variant fused, which is not among {}", all_variants(named))
             : "";
}

attention::Problem problem_of(const AttentionCell& cell, const AttentionVariant& variant) {
  if (variant.destination == attention::Destination::local) {
    return problem_of_rank(cell);
  }
  attention::Problem problem = cell.problem;
  problem.destination = variant.destination;
  return problem;
}

CellHead head_of(const AttentionCell& cell, const std::vector<AttentionVariant>& variants, int multiprocessors,
                 const std::optional<AttentionPlanOverrides>& plan) {
  CellHead head{cell_name(cell), {}};
  std::transform(variants.begin(), variants.end(), std::back_inserter(head.rows),
                 [&](const AttentionVariant& variant) { return row_head(cell, variant, multiprocessors, plan); });
  return head;
}

std::optional<PairedRatio> hiding_ratio(const Times& attention, const Times& serial, const Times& fused) {
  const std::size_t rounds = std::min({attention.trials_us.size(), serial.trials_us.size(), fused.trials_us.size()});
  std::vector<double> communicating;
  std::vector<double> hidden;
  for (std::size_t round = 0; round < rounds; ++round) {
    communicating.push_back(serial.trials_us[round] - attention.trials_us[round]);
    const double residual = fused.trials_us[round] - attention.trials_us[round];
    // In a round in which communicating took no time nothing can have been hidden.
    hidden.push_back(communicating.back() > 0 ? 1 - residual / communicating.back()
                                              : -std::numeric_limits<double>::infinity());
  }
  if (rounds == 0) {
    return std::nullopt;
  }
  const PairedRatio alone = median_of_rounds(communicating);
  const double least = *std::min_element(communicating.begin(), communicating.end());
  if (!(alone.low > 0 || least > 0)) {
    return std::nullopt;
  }
  return median_of_rounds(std::move(hidden));
}

namespace {

/// Adds comparisons to a row whose results have gone to the owners of their rows.
void add_comparisons(Row& row, const std::vector<Row>& rows_of_cell) {
  const Row* attention = find_variant(rows_of_cell, plain);
  const Row* exchange = find_variant(rows_of_cell, "all_to_all");
  const Row* serial = find_variant(rows_of_cell, "serial");
  add_ratio(row, "serial_ratio", serial);
  add_ratio(row, "twin_ratio", find_variant(rows_of_cell, "local_twin"));
  if (attention != nullptr && serial != nullptr) {
    if (const auto hiding = hiding_ratio(attention->times, serial->times, row.times)) {
      add_ratio(row, "hiding", *hiding);
    }
  }
  if (attention != nullptr && exchange != nullptr) {
    add_ceiling(row, microseconds(*attention), microseconds(*exchange));
  }
}

}  // namespace

void add_figures(const AttentionCell& cell, std::vector<Row>& rows_of_cell) {
  for (const AttentionVariant& variant : attention_variants) {
    Row* row = find_variant(rows_of_cell, variant.name);
    if (row == nullptr) {
      continue;
    }
    if (!variant.computes) {
      add_exchange_rate(*row, all_to_all::remote_bytes(exchange_of(cell), cell.ranks));
      continue;
    }
    add_tflops(*row, operations_of_rank(cell));
    const Row* attention = find_variant(rows_of_cell, plain);
    if (variant.among_ranks && attention != nullptr) {
      add_ratio(*row, "ratio", attention);
      row->figures["ratio_to"] = plain;
    }
    if (variant.destination == attention::Destination::to_owners) {
      add_comparisons(*row, rows_of_cell);
    }
  }
}

}  // namespace xstage::bench
