#pragma once
/// Fits R and the producers' own rate from free-running periodic bursts without a gap. See docs/fitting.md.

#include "calibrate/rows.hpp"
#include "xstage/platform.hpp"

namespace xstage::calibrate {

struct DrainFit {
  Estimate drain_gb_per_s;
  Estimate producer_drain_gb_per_s;
  Rows drain_bound;  ///< the rows behind drain_gb_per_s, for the goodness of fit
};

/// `rows`: one path, one pair of devices.
[[nodiscard]] DrainFit fit_drain(const Rows& rows);

/// An estimate from values: their median and its bootstrap interval (no interval below two values).
[[nodiscard]] Estimate median_estimate(const std::vector<double>& values);

/// An estimate without a value, with the reason.
[[nodiscard]] Estimate no_estimate(std::string reason, int points);

}  // namespace xstage::calibrate
