#pragma once
/// Comparisons with measured samples as JSON: in `validate --json` and in the header of a calibration's results file.

#include <vector>

#include "cli/json_output.hpp"
#include "xstage/calibrate.hpp"

namespace xstage::cli {

[[nodiscard]] Json errors_json(const std::vector<ErrorSummary>& errors);

/// Of a simulated node: fitted and held-out samples apart, mean and slowest producers apart.
[[nodiscard]] Json distances_json(const SamplesFile& measured, const SamplesFile& simulated);

}  // namespace xstage::cli
