#pragma once
// What the model of a platform expects of the fused operations, beside what was measured.

#include <vector>

#include "bench/gemm_row.hpp"
#include "xstage/platform.hpp"

namespace xstage::bench {

struct PredictionBasis {
  Platform platform;
  int multiprocessors = 0;  // of one GPU that is measured
};

/// Throws InputError if the platform cannot say how fast so many CTAs drain: before anything is measured.
void check_basis(const PredictionBasis& basis);

/// Fills in the rows `fused`:
///   predicted_us     gemm::audit_plan at the rate of the cell's row `alone`: computing is measured, communicating is
///                    predicted
///   ceiling          max(computing alone, bytes to peers / R) / computing alone, with the faster of `alone` and
///                    `cublas`: no smaller ratio is possible
///   predicted_spans  of the same audit, for comparison with measured ones
/// After add_ratios. A row stays as it is where the cell has no row `alone`, or one of hardly more than a launch.
void add_predictions(std::vector<GemmRow>& rows_of_cell, const PredictionBasis& basis);

}  // namespace xstage::bench
