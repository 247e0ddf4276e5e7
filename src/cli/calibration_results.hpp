#pragma once
/// bench/results/calibration-*.json: every sample of a calibration beside the profile's predictions, and the samples of
/// a simulated node of the same experiments.

#include <string>

#include "xstage/files.hpp"
#include "xstage/platform.hpp"

namespace xstage::cli {

/// The file's text. Rows are `remote` and `local` from `measured`, and `simulated`. Throws InputError for two samples
/// with the same key.
[[nodiscard]] std::string format_calibration_results(const Platform& platform, const SamplesFile& measured,
                                                     const SamplesFile& simulated);

}  // namespace xstage::cli
