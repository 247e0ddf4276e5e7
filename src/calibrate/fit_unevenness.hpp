#pragma once
/// Fits how unevenly arbitration shares the drain between producers. See docs/fitting.md.

#include "calibrate/fit_floor.hpp"
#include "calibrate/rows.hpp"
#include "xstage/platform.hpp"

namespace xstage::calibrate {

/// `rows`: one path, one pair of devices. `capacity`: the fitted Q(K), of which the largest known K counts.
[[nodiscard]] Estimate fit_unevenness(const Rows& rows, const std::vector<CapacityPoint>& capacity);

}  // namespace xstage::calibrate
