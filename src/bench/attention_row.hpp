#pragma once
// Rows of bench/results/attention-*.json.

#include <optional>
#include <string>
#include <vector>

#include "bench/attention_cells.hpp"
#include "bench/attention_spans.hpp"
#include "bench/row_fields.hpp"
#include "bench/statistics.hpp"
#include "bench/variant_times.hpp"

namespace xstage::bench {

/// What attention::audit_plan says of a call, at the rate of the cell's row `attention`.
struct AttentionPrediction {
  double call_us = 0;
  double coupled_us = 0;    // the same if each CTA waited until a tile has arrived before it began the next one
  double main_loop_us = 0;  // of one tile; causal: their mean
  double remote_bytes = 0;  // V: of a wave's stores to peers, where they are most
  double drain_us = 0;      // of these
  double stall_us = 0;      // of the warpgroups that stage these
  double tail_us = 0;       // stores after the last main loop
  /// From so many keys on main loops are longer than `drain_us`. None of causal tiles, nor without peers.
  std::optional<double> shortest_hidden_keys;
};

struct AttentionRow {
  AttentionCell cell;
  VariantTimes times;
  std::string l2;
  std::optional<double> one_shot_us;  // one call from rest, until its results are complete on every rank
  std::optional<attention::Plan> plan;
  std::optional<all_to_all::Plan> exchange_plan;
  /// Time against plain attention. Of the fused ones, less 1, it is the residual.
  std::optional<PairedRatio> ratio;
  /// Fused ones only: time against `serial` and `local_twin`, and the smallest ratio to `attention` that the cell
  /// allows.
  std::optional<PairedRatio> serial_ratio;
  std::optional<PairedRatio> twin_ratio;
  std::optional<double> ceiling;
  std::optional<PairedRatio> hiding;
  /// --platform, `fused` only: see attention_prediction.hpp.
  std::optional<AttentionPrediction> prediction;
  /// --spans, `fused` and `local_twin` only.
  std::optional<AttentionSpans> spans;
  /// --verify: largest error in units of bf16's rounding.
  std::optional<double> largest_error;
};

[[nodiscard]] double microseconds(const AttentionRow& row);

/// None of an all-to-all, which computes nothing.
[[nodiscard]] std::optional<double> tflops(const AttentionRow& row);

/// How much of the communication's time is hidden: 1 - (fused - attention) / (serial - attention), of each round, their
/// median with its 95% interval. Empty where the communication's time cannot be told from none: some median of serial -
/// attention in the 95% interval (in too few rounds for one: of any round) is not above zero.
[[nodiscard]] std::optional<PairedRatio> hiding_ratio(const VariantTimes& attention, const VariantTimes& serial,
                                                      const VariantTimes& fused);

/// Fills in what compares the rows of one cell with each other, as far as it has the variants.
void add_ratios(std::vector<AttentionRow>& rows_of_cell);

/// What tells two rows of the file apart.
[[nodiscard]] std::string key_of(const AttentionRow& row);

[[nodiscard]] Json row_json(const AttentionRow& row);

/// Throws std::logic_error if two rows have the same key.
[[nodiscard]] Json rows_json(const std::vector<AttentionRow>& rows);

}  // namespace xstage::bench
