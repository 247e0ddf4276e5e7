#pragma once
// The model's prediction for attention fused with its all-to-all, for comparison with measurements.

#include <optional>
#include <vector>

#include "bench/prediction_basis.hpp"
#include "bench/row.hpp"
#include "ops/attention/bench/cells.hpp"

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

/// Prediction for the row `fused`, by attention::audit_plan at the rate of the cell's row `attention`: computing is
/// measured, communicating is predicted. It is written into the row (`predicted_us`, `prediction`) and returned.
/// `alone` and `fused` are the plans of these rows. Empty if the cell has no row `attention`, or one that takes hardly
/// longer than a launch. `check_basis` says before the measurement whether the platform knows enough.
std::optional<AttentionPrediction> add_prediction(const AttentionCell& cell, const attention::Plan& alone,
                                                  const attention::Plan& fused, std::vector<Row>& rows_of_cell,
                                                  const PredictionBasis& basis);

}  // namespace xstage::bench
