#pragma once
/// Robust statistics of a calibration. All are deterministic: the bootstrap draws from a fixed seed.

#include <span>
#include <utility>
#include <vector>

namespace xstage::calibrate {

/// Median; the mean of the two middle values for an even count. NaN for no value.
[[nodiscard]] double median(std::vector<double> values);

/// Percentile (0 to 100) with linear interpolation between order statistics. NaN for no value.
[[nodiscard]] double percentile(std::vector<double> values, double percent);

/// Theil-Sen slope: the median slope over all pairs with different x. NaN if there is no such pair.
[[nodiscard]] double theil_sen_slope(std::span<const std::pair<double, double>> points);

struct Interval {
  double low = 0;
  double high = 0;
};

/// 95% percentile-bootstrap interval of the median (Efron 1979): 2000 resamples with a fixed seed.
[[nodiscard]] Interval bootstrap_median_interval(std::span<const double> values);

/// Non-decreasing least-absolute-deviation fit (pool adjacent violators with medians): `groups` are the observations at
/// ascending abscissae; returns one level for each group. A single spike joins its neighbours' pool and is outvoted.
[[nodiscard]] std::vector<double> isotonic_medians(const std::vector<std::vector<double>>& groups);

}  // namespace xstage::calibrate
