#pragma once
// The model's predictions for the fused operations, for comparison with measurements.

#include <optional>
#include <vector>

#include "bench/prediction_basis.hpp"
#include "bench/row.hpp"
#include "ops/gemm/bench/cells.hpp"
#include "ops/gemm/bench/spans.hpp"

namespace xstage::bench {

/// Fills in the row `fused`:
///   predicted_us     gemm::audit_plan at the rate of the cell's row `alone`: computing is measured, communicating is
///                    predicted
///   ceiling, reached of computing as the faster of `alone` and `cublas` did it, and of the bytes to peers at R
/// and returns, of the same audit, what spans are compared with. `alone`, `fused`: the plans of these rows. Nothing
/// where the cell has no row `alone`, or one of hardly more than a launch.
std::optional<PredictedSpans> add_prediction(const GemmCell& cell, const Plan& alone, const Plan& fused,
                                             std::vector<Row>& rows_of_cell, const PredictionBasis& basis);

}  // namespace xstage::bench
