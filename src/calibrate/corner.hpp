#pragma once
/// The period of free-running bursts near the corner of the max law, where the measured one lies a few percent above
/// it.

#include "xstage/model.hpp"

namespace xstage::calibrate {

/// NaN: no correction has been derived from data yet.
[[nodiscard]] double corrected_period_us(const model::OperatingPoint& point, double gap_us);

}  // namespace xstage::calibrate
