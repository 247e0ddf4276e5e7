#include "ops/gemm/bench/rows.hpp"

#include <algorithm>
#include <array>

#include "ops/gemm/layout.hpp"

namespace xstage::bench {

namespace {

Json key_of(const GemmCell& cell) {
  const gemm::Problem& problem = cell.problem;
  Json key{{"op", gemm::operation_name(problem.operation)},
           {"m", problem.m},
           {"n", problem.n},
           {"k", problem.k},
           {"ranks", cell.ranks}};
  if (!problem.parts.empty()) {
    key["heads"] = heads_text(problem);
    key["head_dim"] = problem.head_dim;
  }
  return key;
}

/// The larger shapes of reduce-scatter and all-gather, alone and fused.
bool in_readme(const GemmCell& cell, const GemmVariant& variant) {
  constexpr std::array<GemmShape, 3> shown{{{8192, 8192, 28672}, {16384, 5120, 13824}, {32768, 5120, 13824}}};
  const gemm::Problem& problem = cell.problem;
  const bool has_tensor_parallel_shape =
      problem.operation == gemm::Operation::reduce_scatter || problem.operation == gemm::Operation::all_gather;
  const GemmShape shape{problem.m, problem.n, problem.k};
  return has_tensor_parallel_shape && std::find(shown.begin(), shown.end(), shape) != shown.end() &&
         (variant.way == GemmWay::alone || variant.way == GemmWay::fused);
}

const Row* faster(const Row* one, const Row* other) {
  if (one == nullptr || other == nullptr) {
    return one == nullptr ? other : one;
  }
  return microseconds(*one) <= microseconds(*other) ? one : other;
}

}  // namespace

gemm::Problem problem_of_rank(const GemmCell& cell) {
  const GemmShape shape = shape_of_rank(cell);
  gemm::Problem problem;
  problem.m = shape.m;
  problem.n = shape.n;
  problem.k = shape.k;
  return problem;
}

bool has_variant(const GemmCell& cell, const GemmVariant& variant) {
  return cell.problem.operation != gemm::Operation::gemm || !variant.among_ranks;
}

std::string why_no_local_twin(const gemm::Problem& problem, const Plan& plan, int world) {
  const gemm::Layout layout = gemm::make_layout(problem, plan, 0, world);
  const bool in_registers = std::any_of(layout.targets.begin(), layout.targets.end(),
                                        [](const kernels::GemmRegionTarget& target) { return target.exchange != 0; });
  return in_registers ? "the exchange through registers takes every slot once, and only a running peer fills it again"
                      : "";
}

CellHead head_of(const GemmCell& cell, const std::vector<GemmVariant>& variants, int multiprocessors,
                 const std::optional<GemmPlanOverrides>& plan) {
  CellHead head{cell_name(cell), {}};
  const gemm::Problem& problem = cell.problem;
  const std::string shape =
      fmt::format("{} {}x{}x{}", gemm::operation_name(problem.operation), problem.m, problem.n, problem.k);
  for (const GemmVariant& variant : variants) {
    if (!has_variant(cell, variant)) {
      continue;
    }
    RowHead row{key_of(cell), shape, std::string(variant.name), Json::object(), in_readme(cell, variant)};
    if (variant.way == GemmWay::alone) {
      row.plans["plan"] = plan_json(gemm::make_plan(problem_of_rank(cell), 1, multiprocessors));
    } else if (variant.among_ranks) {
      const Plan shared = choose_plan(problem, cell.ranks, multiprocessors, plan);
      if (variant.way == GemmWay::local_twin && !why_no_local_twin(problem, shared, cell.ranks).empty()) {
        continue;
      }
      row.plans["plan"] = plan_json(shared);
    }
    head.rows.push_back(std::move(row));
  }
  return head;
}

void add_figures(const GemmCell& cell, std::vector<Row>& rows_of_cell) {
  const Row* cublas = find_variant(rows_of_cell, "cublas");
  const Row* alone = find_variant(rows_of_cell, "alone");
  const Row* judge = faster(cublas, alone);
  for (Row& row : rows_of_cell) {
    add_tflops(row, operations_of_rank(cell));
    const Row* reference = &row == alone ? cublas : judge;
    if (&row != cublas && reference != nullptr) {
      add_ratio(row, "ratio", reference);
      row.figures["ratio_to"] = reference->head.variant;
    }
  }
}

}  // namespace xstage::bench
