#pragma once
// `xstage bench attention`: attention, and the ways of bringing its results to the ranks that own their rows.
//
//   variant        each rank computes     communication
//   attention      its heads              none: results stay in its own memory
//   all_to_all     nothing                results of `attention` to the owners of their rows, by one kernel
//   serial         its heads              the same, afterwards on the same stream
//   fused          its heads              every tile goes to its owner when it is done (Completion::sent)
//   fused_arrived  its heads              the same, and each call ends when its peers' results have arrived
//   local_twin     its heads              the stores of `fused`, but into its own memory
//
// The trials of a cell's variants alternate; every trial is one CUDA graph of many calls on each GPU, and all GPUs
// start together. One rank alone has the variant `attention` only. Built without CUDA, run_attention_bench says so.

#include <optional>
#include <string>
#include <vector>

#include "bench/attention_prediction.hpp"
#include "bench/attention_row.hpp"
#include "bench/bench_run.hpp"
#include "bench/plan_options.hpp"

namespace xstage::bench {

struct AttentionBenchOptions {
  std::vector<AttentionCell> cells;
  std::vector<int> devices;           // one a rank
  std::vector<std::string> variants;  // as parse_attention_variants has them
  int trials = 20;
  bool verify = false;
  bool spans = false;  // after the trials of a cell: calls of the instrumented kernel, of fused and local_twin
  std::optional<PredictionBasis> predictions;  // none: rows hold measurements only
  std::optional<AttentionPlanOverrides> plan;  // of whatever computes attention; none: all as the rule picks it
};

struct AttentionBenchOutcome : RunState {
  std::vector<AttentionRow> rows;
  std::optional<trace::Trace> trace;  // of the last cell whose variant fused was recorded
};

using AttentionBenchObserver = BenchObserver<AttentionRow, AttentionBenchOutcome>;

/// A cell that fails is reported and left out. Throws DeviceError if nothing can run at all.
[[nodiscard]] AttentionBenchOutcome run_attention_bench(const AttentionBenchOptions& options,
                                                        const AttentionBenchObserver& observer);

}  // namespace xstage::bench
