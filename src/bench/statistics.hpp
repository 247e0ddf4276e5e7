#pragma once
// Statistics of a series of trials. None of them assumes a distribution of the trials, which have long tails.

#include <span>
#include <vector>

namespace xstage::bench {

/// Value below which `fraction` of the values lie, interpolated linearly between the two nearest. NaN if there are no
/// values.
[[nodiscard]] double percentile(std::span<const double> values, double fraction);
[[nodiscard]] double median(std::span<const double> values);

struct PairedRatio {
  double ratio;  // median over the rounds
  double low;    // 95% interval of that median; NaN if there are too few rounds for one
  double high;
};

/// Median of one number a round, with its 95% interval. Throws std::logic_error if there are no rounds.
[[nodiscard]] PairedRatio median_of_rounds(std::vector<double> values);

/// Ratio of two variants whose trials alternated: value i of both comes from round i, so that effects of clocks and
/// power in that round cancel. The interval is that of the sign test, which holds for any distribution and needs at
/// least 6 rounds. Throws std::logic_error unless both have the same number of values, at least one.
[[nodiscard]] PairedRatio paired_ratio(std::span<const double> numerators, std::span<const double> denominators);

}  // namespace xstage::bench
