#pragma once
// What the model of a platform expects of attention fused with its all-to-all, beside what was measured.

#include <vector>

#include "bench/attention_row.hpp"
#include "bench/gemm_prediction.hpp"

namespace xstage::bench {

/// Fills in the rows `fused`, by attention::audit_plan at the rate of the cell's row `attention`: computing is
/// measured, communicating is predicted. A row stays as it is where the cell has no row `attention`, or one of hardly
/// more than a launch. `check_basis` says before the measurement whether the platform knows enough.
void add_predictions(std::vector<AttentionRow>& rows_of_cell, const PredictionBasis& basis);

}  // namespace xstage::bench
