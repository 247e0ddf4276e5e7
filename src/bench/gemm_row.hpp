#pragma once
// Rows of bench/results/gemm-*.json.

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bench/gemm_cells.hpp"
#include "bench/gemm_spans.hpp"
#include "bench/statistics.hpp"
#include "xstage/plan.hpp"

namespace xstage::bench {

/// What was timed of one variant, in microseconds: each trial is the maximum over ranks, for one call.
struct VariantTimes {
  std::string variant;
  int replays = 0;  // calls in one graph
  double eager_us = 0;
  std::vector<double> trials_us;
};

struct GemmRow {
  GemmCell cell;
  VariantTimes times;
  std::string l2;
  std::optional<Plan> plan;
  /// Against the faster of the variants that it is judged by.
  std::string ratio_to;
  std::optional<PairedRatio> ratio;
  /// --verify: largest error in units of bf16's rounding.
  std::optional<double> largest_error;
  /// --platform, fused operations only: see gemm_prediction.hpp.
  std::optional<double> predicted_us;
  std::optional<double> ceiling;
  std::optional<PredictedSpans> predicted_spans;
  /// --spans, fused operations only.
  std::optional<GemmSpans> spans;
};

[[nodiscard]] double microseconds(const GemmRow& row);
[[nodiscard]] double tflops(const GemmRow& row);

/// Fills the ratios: `alone` against `cublas`, everything fused against the faster of both.
void add_ratios(std::vector<GemmRow>& rows_of_cell);

/// What tells two rows of the file apart.
[[nodiscard]] std::string key_of(const GemmRow& row);

using Json = nlohmann::ordered_json;

[[nodiscard]] Json row_json(const GemmRow& row);

/// Throws std::logic_error if two rows have the same key.
[[nodiscard]] Json rows_json(const std::vector<GemmRow>& rows);

}  // namespace xstage::bench
