#pragma once
// `xstage bench attention`: attention, and the ways of bringing its results to the ranks that own their rows
// (rows.hpp). Built without CUDA, run_attention_bench says so.

#include <optional>
#include <vector>

#include "bench/bench_run.hpp"
#include "bench/prediction_basis.hpp"
#include "ops/attention/bench/rows.hpp"

namespace xstage::bench {

struct AttentionBenchOptions : RunOptions {
  std::vector<AttentionCell> cells;
  std::vector<AttentionVariant> variants;
  std::optional<PredictionBasis> predictions;  // none: rows hold measurements only
  std::optional<AttentionPlanOverrides> plan;  // of whatever computes attention; none: all as the rule picks it
};

[[nodiscard]] Outcome run_attention_bench(const AttentionBenchOptions& options, const std::vector<CellHead>& heads,
                                          const Observer& observer);

}  // namespace xstage::bench
