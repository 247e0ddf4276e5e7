#include "ops/moe/bench/rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "bench/plan_options.hpp"
#include "ops/moe/problem.hpp"

namespace xstage::bench {

namespace {

Json key_of(const MoeCell& cell) {
  return {{"shape", cell.shape.name},
          {"tokens", cell.tokens},
          {"routing", routing_name(cell.skew)},
          {"remote_share", share_text(cell.remote_share)},
          {"ranks", cell.ranks}};
}

/// 8192 tokens of every shape, as a router that knows nothing of ranks sends them.
bool in_readme(const MoeCell& cell, const MoeVariant& variant) {
  constexpr std::int64_t shown = 8192;
  const moe::Share natural = natural_share(cell.ranks);
  return cell.ranks > 1 && cell.tokens == shown && cell.skew == moe::Skew::balanced &&
         cell.remote_share.part == natural.part && cell.remote_share.of == natural.of && variant.name == "unfused";
}

void add_layer_figures(Row& row, const MoeVariant& layer, const std::vector<Row>& rows_of_cell) {
  const auto computing = sum_of_trials(rows_of_cell, {"linear1", "linear2"});
  const auto exchanging =
      sum_of_trials(rows_of_cell, {"dispatch", layer.combine == moe::Combine::rows ? "combine_rows" : "combine"});
  if (!computing) {
    return;
  }
  add_ratio(row, "ratio", paired_ratio(row.times.trials_us, *computing));
  row.figures["ratio_to"] = "linear1+linear2";
  if (!exchanging) {
    return;
  }
  std::vector<double> parts = *computing;
  std::transform(parts.begin(), parts.end(), exchanging->begin(), parts.begin(), std::plus<>());
  add_ratio(row, "parts_ratio", paired_ratio(row.times.trials_us, parts));
  add_ceiling(row, median(*computing), median(*exchanging));
}

}  // namespace

bool is_exchange(const MoeVariant& variant) {
  return variant.part == MoePart::dispatch || variant.part == MoePart::combine;
}

double operations_of_rank(const MoeCell& cell, const MoeVariant& variant, const MoeLoad& load) {
  const double whole = moe::flops(problem_of(cell), load.rows);
  switch (variant.part) {
    case MoePart::layer:
      return whole;
    case MoePart::linear1:
      return whole * 2 / 3;  // gate and up
    case MoePart::linear2:
      return whole / 3;
    case MoePart::dispatch:
    case MoePart::combine:
      break;
  }
  return 0;
}

std::int64_t remote_bytes(const MoeVariant& variant, const MoeLoad& load) {
  if (variant.part == MoePart::dispatch) {
    return load.dispatch_bytes;
  }
  if (variant.part != MoePart::combine) {
    return 0;
  }
  return variant.combine == moe::Combine::rows ? load.combine_rows_bytes : load.combine_bytes;
}

moe::Plan plan_of(const MoeCell& cell, const MoeVariant& variant, int multiprocessors) {
  moe::Plan plan;
  plan.combine = variant.combine;
  return moe::complete_plan(problem_of(cell), plan, cell.ranks, multiprocessors);
}

CellHead head_of(const MoeCell& cell, const std::vector<MoeVariant>& variants, int multiprocessors) {
  CellHead head{cell_name(cell), {}};
  const std::string shape =
      fmt::format("{} {} {} {}", cell.shape.name, cell.tokens, routing_name(cell.skew), share_text(cell.remote_share));
  std::transform(variants.begin(), variants.end(), std::back_inserter(head.rows), [&](const MoeVariant& variant) {
    return RowHead{key_of(cell), shape, std::string(variant.name),
                   Json{{"plan", plan_json(plan_of(cell, variant, multiprocessors))}}, in_readme(cell, variant)};
  });
  return head;
}

void add_figures(const MoeLoad& load, const MoeCell& cell, std::vector<Row>& rows_of_cell,
                 const std::optional<double>& drain_gb_per_s) {
  for (const MoeVariant& variant : moe_variants) {
    Row* row = find_variant(rows_of_cell, variant.name);
    if (row == nullptr) {
      continue;
    }
    row->figures["rows"] = load.rows;
    if (!is_exchange(variant)) {
      add_tflops(*row, operations_of_rank(cell, variant, load));
    } else {
      const std::int64_t bytes = remote_bytes(variant, load);
      add_exchange_rate(*row, bytes);
      if (drain_gb_per_s && !variant.local_twin) {
        row->figures["drain_share"] = number(static_cast<double>(bytes) / microseconds(*row) * 1e-3 / *drain_gb_per_s);
      }
    }
    if (variant.part == MoePart::layer) {
      add_layer_figures(*row, variant, rows_of_cell);
    }
  }
}

}  // namespace xstage::bench
