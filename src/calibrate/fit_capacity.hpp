#pragma once
/// Fits Q(K), the volume of an aligned isolated burst that is accepted before stores issue at the drain's pace. See
/// docs/fitting.md.

#include <string>
#include <vector>

#include "calibrate/fit_floor.hpp"
#include "calibrate/rows.hpp"
#include "xstage/platform.hpp"

namespace xstage::calibrate {

/// Returns one point for each producer count with aligned isolated rows, in ascending order. `rows` are those of one
/// path and one pair of devices. If `missing`, the reason why R or T_iss0 is unknown, is not empty, every capacity is
/// null for that reason.
[[nodiscard]] std::vector<CapacityPoint> fit_capacity(const Rows& rows, const Rates& rates,
                                                      const std::vector<IssueFloorPoint>& floor,
                                                      const std::string& missing);

}  // namespace xstage::calibrate
