#pragma once
// Rows of bench/results/ulysses-*.json.

#include <optional>
#include <string>
#include <vector>

#include "bench/row_fields.hpp"
#include "bench/statistics.hpp"
#include "bench/ulysses_cells.hpp"
#include "bench/variant_times.hpp"

namespace xstage::bench {

struct UlyssesRow {
  UlyssesCell cell;
  VariantTimes times;
  std::string l2;
  std::optional<double> one_shot_us;  // one call from rest, until its results are complete on every rank
  /// `fused` and `flags`: time against `compute`. Less 1 it is what communicating costs that is not hidden.
  std::optional<PairedRatio> ratio;
  /// `flags` only: time against `fused`.
  std::optional<PairedRatio> flags_to_fused;
  /// --verify: largest error of the three operations' results in units of bf16's rounding.
  std::optional<double> largest_error;
};

[[nodiscard]] double microseconds(const UlyssesRow& row);

/// Of one rank.
[[nodiscard]] double tflops(const UlyssesRow& row);

/// Fills in what compares the rows of one cell with each other, as far as it has the variants.
void add_ratios(std::vector<UlyssesRow>& rows_of_cell);

/// What tells two rows of the file apart.
[[nodiscard]] std::string key_of(const UlyssesRow& row);

[[nodiscard]] Json row_json(const UlyssesRow& row);

/// Throws std::logic_error if two rows have the same key.
[[nodiscard]] Json rows_json(const std::vector<UlyssesRow>& rows);

}  // namespace xstage::bench
