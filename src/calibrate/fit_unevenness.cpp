#include "calibrate/fit_unevenness.hpp"

#include <cmath>

#include "calibrate/fit_drain.hpp"

namespace xstage::calibrate {
namespace {

constexpr std::size_t fewest_points = 2;
/// A burst of this many capacities spends most of its issue time at its share of the drain and not filling its own
/// queue.
constexpr double long_burst_capacities = 3;

/// Unevenness: half the distance of the two halves' rates, relative to their mean. Rates spread evenly over [1-a, 1+a]
/// give issue times whose 5th and 95th percentiles are in the ratio (1 - 0.9a) : (1 + 0.9a); two halves with the same
/// standard deviation lie at 1 -+ a/sqrt(3).
double unevenness_of(const BurstSample& row) {
  const double spread = (row.issue_p95_us - row.issue_p5_us) / (row.issue_p95_us + row.issue_p5_us);
  return spread / 0.9 / std::sqrt(3.0);
}

const CapacityPoint* largest_known(const std::vector<CapacityPoint>& capacity) {
  const CapacityPoint* largest = nullptr;
  for (const CapacityPoint& point : capacity) {
    if (point.capacity_bytes.value && (largest == nullptr || point.producers > largest->producers)) {
      largest = &point;
    }
  }
  return largest;
}

}  // namespace

Estimate fit_unevenness(const Rows& rows, const std::vector<CapacityPoint>& capacity) {
  const CapacityPoint* reference = largest_known(capacity);
  if (reference == nullptr) {
    return no_estimate("no capacity is known, so nothing tells which isolated bursts are long enough", 0);
  }
  std::vector<double> values;
  for (const BurstSample* row : rows) {
    const BurstExperiment& experiment = row->experiment;
    const bool long_burst = volume_bytes(*row) >= long_burst_capacities * *reference->capacity_bytes.value;
    if (experiment.mode == BurstMode::isolated && experiment.regime == Regime::aligned && long_burst &&
        experiment.producers == reference->producers && row->issue_p5_us > 0 && std::isfinite(row->issue_p95_us)) {
      values.push_back(unevenness_of(*row));
    }
  }
  if (values.size() < fewest_points) {
    return no_estimate("fewer than 2 isolated bursts of at least three times the capacity",
                       static_cast<int>(values.size()));
  }
  return median_estimate(values);
}

}  // namespace xstage::calibrate
