#pragma once
/// A measured point as tables, JSON and CSV.

#include <ostream>
#include <string>
#include <vector>

#include "cli/json_output.hpp"
#include "xstage/measure.hpp"

namespace xstage::cli {

/// What is said about a point beside its numbers.
struct PointReport {
  const NodeDescription& node;
  const MeasuredPoint& point;
  const Platform* platform = nullptr;  ///< none: no predictions
  std::vector<std::string> reasons;    ///< why the profile cannot predict something
};

void print_point(std::ostream& out, const PointReport& report);
[[nodiscard]] Json point_json(const PointReport& report);
/// One line a quantity: burst_index,quantity,unit,measured,low,high,repetitions,law,corrected; what is not known is
/// empty.
void print_point_csv(std::ostream& out, const PointReport& report);

}  // namespace xstage::cli
