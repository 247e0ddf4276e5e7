#include "ops/ulysses/bench/rows.hpp"

#include <algorithm>
#include <iterator>

#include "bench/plan_options.hpp"

namespace xstage::bench {

namespace {

double operations(const gemm::Problem& problem) {
  return 2 * static_cast<double>(problem.m) * static_cast<double>(problem.n) * static_cast<double>(problem.k);
}

/// The plans of rank 0.
Json plans_of(const UlyssesCell& cell, const UlyssesVariant& variant, int multiprocessors) {
  const int world = variant.among_ranks ? cell.ranks : 1;
  Json plans = Json::object();
  if (variant.projection) {
    const gemm::Problem problem = variant.among_ranks ? projection_of(cell).problem : local_projection_of(cell, 0);
    plans["projection"] = plan_json(gemm::make_plan(problem, world, multiprocessors));
  }
  if (variant.attention) {
    const AttentionCell attention = attention_of(cell);
    const attention::Problem problem = variant.among_ranks ? attention.problem : problem_of_rank(attention);
    plans["attention"] = plan_json(attention::make_plan(problem, world, multiprocessors));
  }
  if (variant.output_projection) {
    plans["output_projection"] = plan_json(gemm::make_plan(output_projection_of(cell, 0), 1, multiprocessors));
  }
  return plans;
}

}  // namespace

double operations_of_rank(const UlyssesCell& cell, const UlyssesVariant& variant) {
  return (variant.projection ? operations(local_projection_of(cell, 0)) : 0) +
         (variant.attention ? operations_of_rank(attention_of(cell)) : 0) +
         (variant.output_projection ? operations(output_projection_of(cell, 0)) : 0);
}

CellHead head_of(const UlyssesCell& cell, const std::vector<UlyssesVariant>& variants, int multiprocessors) {
  CellHead head{cell_name(cell), {}};
  const Json key{{"tokens", cell.tokens}, {"heads", cell.heads}, {"head_dim", ulysses_head_dim}, {"ranks", cell.ranks}};
  std::transform(variants.begin(), variants.end(), std::back_inserter(head.rows), [&](const UlyssesVariant& variant) {
    return RowHead{key, shape_text(cell), std::string(variant.name),
                   Json{{"plan", plans_of(cell, variant, multiprocessors)}}, false};
  });
  return head;
}

void add_figures(const UlyssesCell& cell, std::vector<Row>& rows_of_cell) {
  const Row* compute = find_variant(rows_of_cell, "compute");
  for (const UlyssesVariant& variant : ulysses_variants) {
    Row* row = find_variant(rows_of_cell, variant.name);
    if (row == nullptr) {
      continue;
    }
    add_tflops(*row, operations_of_rank(cell, variant));
    if (variant.among_ranks && compute != nullptr) {
      add_ratio(*row, "ratio", compute);
      row->figures["ratio_to"] = "compute";
    }
    if (variant.by_flags) {
      add_ratio(*row, "flags_to_fused", find_variant(rows_of_cell, "fused"));
    }
  }
}

}  // namespace xstage::bench
