#pragma once
/// Q(K): how much of an aligned isolated burst is accepted before stores issue at the drain's pace. docs/fitting.md

#include <string>
#include <vector>

#include "calibrate/fit_floor.hpp"
#include "calibrate/rows.hpp"
#include "xstage/platform.hpp"

namespace xstage::calibrate {

/// One point for each producer count with aligned isolated rows, ascending. `rows`: one path, one pair of devices. With
/// `missing` (why R or T_iss0 is unknown) not empty, every capacity is null for that reason.
[[nodiscard]] std::vector<CapacityPoint> fit_capacity(const Rows& rows, const Rates& rates,
                                                      const std::vector<IssueFloorPoint>& floor,
                                                      const std::string& missing);

}  // namespace xstage::calibrate
