#include "bench/gemm_prediction.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <string_view>

#include "xstage/error.hpp"

namespace xstage::bench {

namespace {

bool is(const GemmRow& row, std::string_view variant) { return row.times.variant == variant; }

/// The faster way to compute without communication: what the ratios are against.
double computing_us(const std::vector<GemmRow>& rows) {
  double fastest = std::numeric_limits<double>::infinity();
  for (const GemmRow& row : rows) {
    if (is(row, "cublas") || is(row, "alone")) {
      fastest = std::min(fastest, microseconds(row));
    }
  }
  return fastest;
}

/// Rate of the whole GPU in main loops such as those of this row, from its time: the prediction of a GEMM without
/// communication, waves x main loop + launch, solved for the rate. None if the launch is all there is.
std::optional<double> main_loop_tflops(const GemmRow& alone, const PredictionBasis& basis) {
  const GemmShape shape = shape_of_rank(alone.cell);
  gemm::Problem problem;
  problem.m = shape.m;
  problem.n = shape.n;
  problem.k = shape.k;
  constexpr double one_tflops = 1;
  const PlanAudit audit = gemm::audit_plan(problem, *alone.plan, 1, basis.multiprocessors, basis.platform, one_tflops);
  const double main_loops_us = microseconds(alone) - audit.launch_us;
  if (main_loops_us <= 0) {
    return std::nullopt;
  }
  return audit.waves * audit.main_loop_us / main_loops_us;
}

}  // namespace

void check_basis(const PredictionBasis& basis) {
  constexpr double bytes_of_tile = 65536;
  const OperatingPointOrReason found =
      operating_point(basis.platform, StorePath::bulk, basis.multiprocessors, bytes_of_tile);
  if (!found.usable) {
    throw InputError(fmt::format("platform {}: {}", basis.platform.node.name, fmt::join(found.reasons, "; ")));
  }
}

void add_predictions(std::vector<GemmRow>& rows_of_cell, const PredictionBasis& basis) {
  const auto alone = std::find_if(rows_of_cell.begin(), rows_of_cell.end(),
                                  [](const GemmRow& row) { return is(row, "alone") && row.plan.has_value(); });
  const std::optional<double> tflops = alone == rows_of_cell.end() ? std::nullopt : main_loop_tflops(*alone, basis);
  if (!tflops) {
    return;
  }
  const double computing = computing_us(rows_of_cell);
  for (GemmRow& row : rows_of_cell) {
    if (is(row, "fused") && row.plan) {
      const PlanAudit audit =
          gemm::audit_plan(row.cell.problem, *row.plan, row.cell.ranks, basis.multiprocessors, basis.platform, *tflops);
      row.predicted_us = audit.predicted_us;
      row.predicted_spans = {audit.main_loop_us, audit.stall_us};
      row.ceiling = std::max(computing, audit.all_drain_us) / computing;
    }
  }
}

}  // namespace xstage::bench
