#pragma once
// Rows of bench/results/gemm-*.json.

#include <optional>
#include <string>
#include <vector>

#include "bench/gemm_cells.hpp"
#include "bench/gemm_spans.hpp"
#include "bench/row_fields.hpp"
#include "bench/statistics.hpp"
#include "bench/variant_times.hpp"
#include "xstage/plan.hpp"

namespace xstage::bench {

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

[[nodiscard]] Json row_json(const GemmRow& row);

/// Throws std::logic_error if two rows have the same key.
[[nodiscard]] Json rows_json(const std::vector<GemmRow>& rows);

}  // namespace xstage::bench
