#pragma once
/// What would change the verdict: for each knob of a workload, all others as given, the nearest value that does.

#include <vector>

#include "xstage/audit.hpp"

namespace xstage {

/// `verdict` is the one that the workload as given gets in `regime`. An undecided regime has no flips: whatever the
/// profile lacks, no knob replaces a measurement.
[[nodiscard]] std::vector<Flip> find_flips(const Platform& platform, const Workload& workload, Regime regime,
                                           Verdict verdict);

}  // namespace xstage
