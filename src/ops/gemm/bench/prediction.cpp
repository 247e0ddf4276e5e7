#include "ops/gemm/bench/prediction.hpp"

#include <algorithm>
#include <limits>

#include "ops/gemm/bench/rows.hpp"

namespace xstage::bench {

namespace {

/// Time of the faster way to compute without communication, which ratios refer to.
double computing_us(const std::vector<Row>& rows) {
  double fastest = std::numeric_limits<double>::infinity();
  for (const char* variant : {"cublas", "alone"}) {
    if (const Row* row = find_variant(rows, variant)) {
      fastest = std::min(fastest, microseconds(*row));
    }
  }
  return fastest;
}

/// Rate of the whole GPU in main loops such as those of this row, derived from its time: the prediction of a GEMM
/// without communication (waves x main loop + launch) is solved for the rate. Empty if the launch takes all of the
/// time.
std::optional<double> main_loop_tflops(const GemmCell& cell, const Plan& plan, const Row& alone,
                                       const PredictionBasis& basis) {
  constexpr double one_tflops = 1;
  const PlanAudit audit =
      gemm::audit_plan(problem_of_rank(cell), plan, 1, basis.multiprocessors, basis.platform, one_tflops);
  const double main_loops_us = microseconds(alone) - audit.launch_us;
  if (main_loops_us <= 0) {
    return std::nullopt;
  }
  return audit.waves * audit.main_loop_us / main_loops_us;
}

}  // namespace

std::optional<PredictedSpans> add_prediction(const GemmCell& cell, const Plan& alone, const Plan& fused,
                                             std::vector<Row>& rows_of_cell, const PredictionBasis& basis) {
  const Row* computed = find_variant(rows_of_cell, "alone");
  Row* predicted = find_variant(rows_of_cell, "fused");
  const std::optional<double> tflops =
      computed == nullptr || predicted == nullptr ? std::nullopt : main_loop_tflops(cell, alone, *computed, basis);
  if (!tflops) {
    return std::nullopt;
  }
  const PlanAudit audit =
      gemm::audit_plan(cell.problem, fused, cell.ranks, basis.multiprocessors, basis.platform, *tflops);
  predicted->figures["predicted_us"] = rounded(audit.predicted_us);
  add_ceiling(*predicted, computing_us(rows_of_cell), audit.all_drain_us);
  return PredictedSpans{audit.main_loop_us, audit.stall_us};
}

}  // namespace xstage::bench
