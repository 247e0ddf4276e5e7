#include "bench/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

#include "node/quantiles.hpp"

namespace xstage::bench {

namespace {

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

/// Number of values that may be cut off at either end so that the rest holds the median with at least 95%: the largest
/// c with 2 P(X < c) <= 0.05 for X of a binomial distribution (rounds, 1/2). 0: there are too few values to cut any.
std::size_t cut_off(std::size_t rounds) {
  const auto n = static_cast<double>(rounds);
  double below = 0;
  std::size_t cut = 0;
  while (cut < rounds) {
    const auto k = static_cast<double>(cut);
    below += std::exp(std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1) - n * std::log(2.0));
    if (2 * below > 0.05) {
      break;
    }
    ++cut;
  }
  return cut;
}

}  // namespace

double percentile(std::span<const double> values, double fraction) {
  if (values.empty()) {
    return not_a_number;
  }
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  return quantile_of_sorted(sorted, std::clamp(fraction, 0.0, 1.0));
}

double median(std::span<const double> values) { return percentile(values, 0.5); }

PairedRatio median_of_rounds(std::vector<double> values) {
  if (values.empty()) {
    throw std::logic_error("a median of rounds needs at least one round");
  }
  std::sort(values.begin(), values.end());
  const std::size_t cut = cut_off(values.size());
  if (cut == 0) {
    return {median(values), not_a_number, not_a_number};
  }
  return {median(values), values[cut - 1], values[values.size() - cut]};
}

PairedRatio paired_ratio(std::span<const double> numerators, std::span<const double> denominators) {
  if (numerators.size() != denominators.size() || numerators.empty()) {
    throw std::logic_error("a paired ratio needs as many numerators as denominators, at least one");
  }
  std::vector<double> ratios(numerators.size());
  std::transform(numerators.begin(), numerators.end(), denominators.begin(), ratios.begin(),
                 [](double numerator, double denominator) { return numerator / denominator; });
  return median_of_rounds(std::move(ratios));
}

}  // namespace xstage::bench
