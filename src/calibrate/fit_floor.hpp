#pragma once
/// Fits T_iss0, the issue time of a burst that meets no back-pressure, by burst size per producer. See docs/fitting.md.

#include <string>
#include <vector>

#include "calibrate/fit_drain.hpp"
#include "calibrate/rows.hpp"
#include "xstage/platform.hpp"

namespace xstage::calibrate {

/// The model's rates as far as they are known; bytes per microsecond. `producer` is infinite where it is not known.
struct Rates {
  double drain = 0;
  double producer = 0;
  [[nodiscard]] double of(int producers) const;
};

struct FloorFit {
  std::vector<IssueFloorPoint> table;  ///< ascending in bytes, non-decreasing in time
  std::string reason;                  ///< set when `table` is empty
  Rows below_knee;                     ///< the rows behind the table, for the goodness of fit
};

/// `rows`: one path, one pair of devices.
[[nodiscard]] FloorFit fit_floor(const Rows& rows, const Rates& rates);

/// Whether K producers exceed R by at most a tenth with their own rate. A burst would then need a volume of ten
/// capacities to fill the X-Stage, so that its isolated issue time shows no knee of the fabric.
[[nodiscard]] bool cannot_outrun_drain(int producers, const Rates& rates);

}  // namespace xstage::calibrate
