#include "calibrate/fit_capacity.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "calibrate/estimators.hpp"

namespace xstage::calibrate {
namespace {

constexpr std::size_t fewest_points_beyond_knee = 3;
/// Factor and difference by which an issue time is clearly above the floor: half again as long, and 0.1 us more, some
/// three times the spread of an undisturbed burst.
constexpr double above_floor_factor = 1.5;
constexpr double above_floor_us = 0.1;
/// The isolated-burst equation holds if the issue time rises by 1/R per byte. Producers end a long burst one after the
/// other, which flattens the rise of their mean a little (H200: 1% at K = 132, 11 to 15% at K = 33, 19% at K = 16).
constexpr double slope_tolerance = 0.17;

struct KneeFit {
  int producers = 0;
  const Rates& rates;
  const std::vector<IssueFloorPoint>& floor;

  [[nodiscard]] double floor_us(const BurstSample& row) const {
    return issue_floor_us(floor, static_cast<double>(row.experiment.bytes));
  }

  [[nodiscard]] Rows beyond_knee(const Rows& rows) const {
    Rows beyond;
    std::copy_if(rows.begin(), rows.end(), std::back_inserter(beyond), [&](const BurstSample* row) {
      return row->issue_us > above_floor_factor * floor_us(*row) + above_floor_us;
    });
    return beyond;
  }

  /// Slope of the issue time over V, as a multiple of 1/R.
  [[nodiscard]] double relative_slope(const Rows& beyond) const {
    std::vector<std::pair<double, double>> points;
    std::transform(beyond.begin(), beyond.end(), std::back_inserter(points), [](const BurstSample* row) {
      return std::pair{volume_bytes(*row), row->issue_us};
    });
    return theil_sen_slope(points) * rates.drain;
  }

  /// T = (V - Q)/R solved for Q at every point.
  [[nodiscard]] std::vector<double> capacities(const Rows& beyond) const {
    std::vector<double> values;
    std::transform(beyond.begin(), beyond.end(), std::back_inserter(values),
                   [&](const BurstSample* row) { return volume_bytes(*row) - rates.drain * row->issue_us; });
    return values;
  }

  [[nodiscard]] double median_error(const Rows& beyond, double capacity) const {
    std::vector<double> errors;
    for (const BurstSample* row : beyond) {
      const double predicted = std::max(floor_us(*row), (volume_bytes(*row) - capacity) / rates.drain);
      errors.push_back(std::abs(predicted - row->issue_us) / row->issue_us);
    }
    return median(std::move(errors));
  }

  /// The burst size at which (V - Q)/R meets the floor, by bisection: the difference grows with B beyond the knee.
  [[nodiscard]] double knee_bytes_per_producer(double capacity, double largest_bytes) const {
    double below = 0;
    double above = largest_bytes;
    for (int step = 0; step < 60; ++step) {
      const double middle = (below + above) / 2;
      const bool beyond = (producers * middle - capacity) / rates.drain > issue_floor_us(floor, middle);
      (beyond ? above : below) = middle;
    }
    return above;
  }
};

std::int64_t largest_bytes(const Rows& rows) {
  std::int64_t largest = 0;
  for (const BurstSample* row : rows) {
    largest = std::max(largest, row->experiment.bytes);
  }
  return largest;
}

/// The reason why these rows do not support a capacity; empty if they do.
std::string reason_against(const KneeFit& knee, const Rows& rows, const Rows& beyond) {
  if (beyond.empty()) {
    return fmt::format("no knee up to {} bytes per producer: the isolated issue time stays at its floor",
                       largest_bytes(rows));
  }
  if (beyond.size() < fewest_points_beyond_knee) {
    return fmt::format("{} points beyond the knee, at least {} needed", beyond.size(), fewest_points_beyond_knee);
  }
  const double slope = knee.relative_slope(beyond);
  if (!(std::abs(slope - 1) <= slope_tolerance)) {
    return fmt::format(
        "beyond the knee the issue time rises by {:.2f}/R per byte, not by 1/R within {:.0f}%: the "
        "isolated-burst equation does not describe it",
        slope, slope_tolerance * 100);
  }
  const double capacity = median(knee.capacities(beyond));
  if (capacity < 0) {
    return fmt::format("the fit gives {:.0f} bytes, and a capacity is not negative", capacity);
  }
  return {};
}

CapacityPoint capacity_point(const KneeFit& knee, const Rows& rows) {
  CapacityPoint point;
  point.producers = knee.producers;
  if (cannot_outrun_drain(knee.producers, knee.rates)) {
    point.capacity_bytes = no_estimate(
        fmt::format(
            "{} producers of {:.1f} GB/s each cannot outrun the drain of {:.1f} GB/s, so the fabric has no knee",
            knee.producers, knee.rates.producer / 1000, knee.rates.drain / 1000),
        0);
    return point;
  }
  const Rows beyond = knee.beyond_knee(rows);
  const std::string reason = reason_against(knee, rows, beyond);
  if (!reason.empty()) {
    point.capacity_bytes = no_estimate(reason, static_cast<int>(beyond.size()));
    return point;
  }
  point.capacity_bytes = median_estimate(knee.capacities(beyond));
  const double capacity = *point.capacity_bytes.value;
  point.knee_bytes_per_producer = knee.knee_bytes_per_producer(capacity, static_cast<double>(largest_bytes(beyond)));
  point.median_error = knee.median_error(beyond, capacity);
  return point;
}

std::map<int, Rows> aligned_isolated_by_count(const Rows& rows) {
  std::map<int, Rows> by_count;
  for (const BurstSample* row : rows) {
    const BurstExperiment& experiment = row->experiment;
    if (experiment.mode == BurstMode::isolated && experiment.regime == Regime::aligned &&
        std::isfinite(row->issue_us) && row->issue_us > 0) {
      by_count[experiment.producers].push_back(row);
    }
  }
  return by_count;
}

}  // namespace

std::vector<CapacityPoint> fit_capacity(const Rows& rows, const Rates& rates, const std::vector<IssueFloorPoint>& floor,
                                        const std::string& missing) {
  std::vector<CapacityPoint> points;
  for (const auto& [producers, isolated] : aligned_isolated_by_count(rows)) {
    if (missing.empty()) {
      points.push_back(capacity_point({producers, rates, floor}, isolated));
    } else {
      points.emplace_back().producers = producers;
      points.back().capacity_bytes = no_estimate(missing, 0);
    }
  }
  return points;
}

}  // namespace xstage::calibrate
