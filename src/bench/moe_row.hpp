#pragma once
// Rows of bench/results/moe-*.json.

#include <optional>
#include <string>
#include <vector>

#include "bench/moe_cells.hpp"
#include "bench/moe_load.hpp"
#include "bench/row_fields.hpp"
#include "bench/statistics.hpp"
#include "bench/variant_times.hpp"

namespace xstage::bench {

struct MoeRow {
  MoeCell cell;
  MoeLoad load;
  VariantTimes times;
  std::string l2;
  std::optional<double> one_shot_us;  // one call from rest, until its results are complete on every rank
  // Of layers only.
  std::optional<PairedRatio> ratio;        // time against linear1 + linear2: all that is not computing is on top
  std::optional<PairedRatio> parts_ratio;  // time against dispatch + linear1 + linear2 + its own combine
  /// Of exchanges with peers, where R is known: gb_per_s / R.
  std::optional<double> drain_share;
  /// --verify: largest error of sampled elements in units of bf16's rounding.
  std::optional<double> largest_error;
};

[[nodiscard]] double microseconds(const MoeRow& row);

/// Of the rank with most rows; 0 for exchanges.
[[nodiscard]] double tflops(const MoeRow& row);

/// Of the rank that sends most; 0 for all but exchanges. 1 GB/s = 1e9 bytes/s.
[[nodiscard]] double gb_per_s(const MoeRow& row);

/// Fills in what compares the rows of one cell with each other, as far as it has the variants.
void add_ratios(std::vector<MoeRow>& rows_of_cell);

/// Fills in drain_share; `drain_gb_per_s` is R.
void add_drain_shares(std::vector<MoeRow>& rows_of_cell, double drain_gb_per_s);

/// What tells two rows of the file apart.
[[nodiscard]] std::string key_of(const MoeRow& row);

[[nodiscard]] Json row_json(const MoeRow& row);

/// Throws std::logic_error if two rows have the same key.
[[nodiscard]] Json rows_json(const std::vector<MoeRow>& rows);

}  // namespace xstage::bench
