#pragma once
/// What the profile cannot decide, why, and the measurement that would.

#include <string>

#include "xstage/audit.hpp"

namespace xstage {

/// "xstage measure ..." of the burst that the undecided bound is about: K_act producers if they are aligned, else K.
[[nodiscard]] std::string deciding_measurement(const Workload& workload, Regime regime);

/// " Not known: REASONS. Measure it: xstage measure ..." for a workload whose verdict is cannot_decide; else empty.
[[nodiscard]] std::string why_undecided(const Platform& platform, const Workload& workload, Regime regime);

}  // namespace xstage
