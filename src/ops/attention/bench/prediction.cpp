#include "ops/attention/bench/prediction.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "ops/attention/problem.hpp"
#include "xstage/model.hpp"

namespace xstage::bench {

namespace {

/// Rate of the whole GPU in main loops such as those of this row, derived from its time: the prediction of an attention
/// without communication (main loops + launch) is solved for the rate. Empty if the launch takes all of the time.
std::optional<double> main_loop_tflops(const AttentionCell& cell, const attention::Plan& plan, const Row& alone,
                                       const PredictionBasis& basis) {
  constexpr double one_tflops = 1;
  const PlanAudit audit =
      attention::audit_plan(problem_of_rank(cell), plan, 1, basis.multiprocessors, basis.platform, one_tflops);
  const double main_loops_us = microseconds(alone) - audit.launch_us;
  if (main_loops_us <= 0) {
    return std::nullopt;
  }
  return (audit.predicted_us - audit.launch_us) / main_loops_us;
}

/// M_ub* with V and R of this audit. T_iss0 is 0, since the store warp issues and not the warpgroup. Empty for causal
/// tiles, whose main loops differ, and where nothing goes to peers.
std::optional<double> shortest_hidden_keys(const attention::Problem& problem, const PlanAudit& audit) {
  if (problem.causal || audit.remote_bytes <= 0) {
    return std::nullopt;
  }
  model::OperatingPoint point;
  point.volume_bytes = audit.remote_bytes;
  point.drain_bytes_per_us = audit.remote_bytes / audit.drain_us;
  const std::int64_t blocks = (problem.keys - 1) / attention::block_keys + 1;
  return model::shortest_covered_sequence(point, attention::block_keys,
                                          audit.main_loop_us / static_cast<double>(blocks));
}

AttentionPrediction prediction_of(const attention::Problem& problem, const PlanAudit& audit, double alone_us) {
  AttentionPrediction prediction;
  prediction.call_us = audit.predicted_us;
  // completion_coupled::period_us, G + V/R, of all waves together.
  prediction.coupled_us = alone_us + audit.all_drain_us;
  prediction.main_loop_us = audit.main_loop_us;
  prediction.remote_bytes = audit.remote_bytes;
  prediction.drain_us = audit.drain_us;
  prediction.stall_us = audit.stall_us;
  prediction.tail_us = audit.tail_us;
  prediction.shortest_hidden_keys = shortest_hidden_keys(problem, audit);
  return prediction;
}

void fill_in(Row& row, const AttentionPrediction& prediction) {
  row.figures["predicted_us"] = rounded(prediction.call_us);
  Json& parts = row.figures["prediction"];
  parts = {{"coupled_us", rounded(prediction.coupled_us)},
           {"main_loop_us", rounded(prediction.main_loop_us)},
           {"drain_us", rounded(prediction.drain_us)},
           {"stall_us", rounded(prediction.stall_us)},
           {"tail_us", rounded(prediction.tail_us)}};
  if (prediction.shortest_hidden_keys) {
    parts["shortest_hidden_keys"] = *prediction.shortest_hidden_keys;
  }
}

}  // namespace

std::optional<AttentionPrediction> add_prediction(const AttentionCell& cell, const attention::Plan& alone,
                                                  const attention::Plan& fused, std::vector<Row>& rows_of_cell,
                                                  const PredictionBasis& basis) {
  const Row* computed = find_variant(rows_of_cell, "attention");
  Row* row = find_variant(rows_of_cell, "fused");
  const std::optional<double> tflops =
      computed == nullptr || row == nullptr ? std::nullopt : main_loop_tflops(cell, alone, *computed, basis);
  if (!tflops) {
    return std::nullopt;
  }
  const attention::Problem& problem = cell.problem;
  const PlanAudit audit =
      attention::audit_plan(problem, fused, cell.ranks, basis.multiprocessors, basis.platform, *tflops);
  const AttentionPrediction prediction = prediction_of(problem, audit, microseconds(*computed));
  fill_in(*row, prediction);
  return prediction;
}

}  // namespace xstage::bench
