#pragma once
// `xstage bench attention`: measures attention and the ways of moving its results to the ranks that own their rows
// (rows.hpp). In a build without CUDA run_attention_bench throws an error that says so.

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
