#pragma once
/// Order statistics of measured times.

#include <vector>

namespace xstage {

/// Quantile of a sorted, not empty range by linear interpolation, 0 <= fraction <= 1.
[[nodiscard]] double quantile_of_sorted(const std::vector<double>& sorted, double fraction);
/// Median of a range that is not empty.
[[nodiscard]] double median_of(std::vector<double> values);

}  // namespace xstage
