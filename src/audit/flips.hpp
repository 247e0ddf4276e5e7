#pragma once
/// Finds what would change the verdict: for each knob of a workload, with all others as given, the nearest value that
/// does.

#include <vector>

#include "xstage/audit.hpp"

namespace xstage {

/// `verdict` is that of the given workload in `regime`. An undecided regime has no flips, since no knob replaces a
/// measurement that the profile lacks.
[[nodiscard]] std::vector<Flip> find_flips(const Platform& platform, const Workload& workload, Regime regime,
                                           Verdict verdict);

}  // namespace xstage
