#pragma once
/// Which points recorded samples hold, and which of them lie nearest to one that they lack.

#include <optional>
#include <string>
#include <vector>

#include "xstage/node.hpp"

namespace xstage::calibrate {

/// The recorded experiments of this point: same path, mode, regime, target, device pair, producers and bytes, and a gap
/// that is the same to the last digit which the tool prints. How many bursts and threads there were is the recording's
/// business.
[[nodiscard]] std::vector<BurstExperiment> same_point(const std::vector<BurstExperiment>& recorded,
                                                      const BurstExperiment& point);

/// As same_point; throws InputError with the nearest points, each as the options that ask for it, if there is none.
[[nodiscard]] std::vector<BurstExperiment> require_point(const std::vector<BurstExperiment>& recorded,
                                                         const BurstExperiment& point, const std::string& node);

/// "--producers 132 --bytes 32768 --gap-us 11.6 --path store16 --regime free-running", and mode and pair where they are
/// not the usual ones.
[[nodiscard]] std::string options_of(const BurstExperiment& point);

}  // namespace xstage::calibrate
