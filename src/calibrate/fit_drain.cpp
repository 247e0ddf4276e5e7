#include "calibrate/fit_drain.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "calibrate/estimators.hpp"

namespace xstage::calibrate {
namespace {

constexpr std::size_t fewest_drain_bound_points = 3;
constexpr std::size_t fewest_producer_bound_points = 2;
/// Saturation: producers that share the fabric get at most this part of what they reach when few share it. A load of
/// twice R is far from the bend, where the rate still rises slowly with K (H200: K = 8 could offer 400 GB/s and reads
/// 354 to 364).
constexpr double drain_bound_share = 0.5;
/// A producer count is on the plateau if its median rate is this close to that of the highest count.
constexpr double plateau_tolerance = 0.015;
/// Producer-bound points: the producers could offer at most this part of R.
constexpr double producer_bound_load = 0.75;
/// A burst is long enough to show a producer's rate if its per-burst overhead costs at most this share of it.
constexpr double overhead_tolerance = 0.05;

struct RatePoint {
  const BurstSample* row = nullptr;
  int producers = 0;
  std::int64_t bytes = 0;
  double rate = 0;  ///< all producers, GB/s
  [[nodiscard]] double per_producer() const { return rate / producers; }
};

std::vector<RatePoint> rate_points(const Rows& rows) {
  std::vector<RatePoint> points;
  for (const BurstSample* row : zero_gap_rows(rows)) {
    const double rate = rate_gb_per_s(*row);
    if (std::isfinite(rate) && rate > 0) {
      points.push_back({row, row->experiment.producers, row->experiment.bytes, rate});
    }
  }
  std::stable_sort(points.begin(), points.end(),
                   [](const RatePoint& a, const RatePoint& b) { return a.producers < b.producers; });
  return points;
}

/// Rate that one producer reaches at each burst size when few share the fabric: the median over the three lowest
/// counts, so that one odd reading is outvoted, or the larger of only two.
std::map<std::int64_t, double> unshared_producer_rate(const std::vector<RatePoint>& points) {
  std::map<std::int64_t, std::vector<double>> lowest_counts;
  for (const RatePoint& point : points) {
    std::vector<double>& rates = lowest_counts[point.bytes];
    if (rates.size() < 3) {
      rates.push_back(point.per_producer());
    }
  }
  std::map<std::int64_t, double> unshared;
  for (const auto& [bytes, rates] : lowest_counts) {
    unshared[bytes] = rates.size() == 2 ? std::max(rates[0], rates[1]) : median(rates);
  }
  return unshared;
}

std::vector<double> rates_of(const std::vector<RatePoint>& points) {
  std::vector<double> rates;
  std::transform(points.begin(), points.end(), std::back_inserter(rates), [](const RatePoint& p) { return p.rate; });
  return rates;
}

std::vector<RatePoint> drain_bound_points(const std::vector<RatePoint>& points,
                                          const std::map<std::int64_t, double>& unshared) {
  std::vector<RatePoint> kept;
  std::copy_if(points.begin(), points.end(), std::back_inserter(kept), [&](const RatePoint& point) {
    return point.per_producer() <= drain_bound_share * unshared.at(point.bytes);
  });
  return kept;
}

/// The drain-bound points of those producer counts whose median rate no longer rises.
std::vector<RatePoint> plateau_points(const std::vector<RatePoint>& points) {
  std::map<int, std::vector<double>> by_count;
  for (const RatePoint& point : points) {
    by_count[point.producers].push_back(point.rate);
  }
  if (by_count.empty()) {
    return {};
  }
  const double top = median(by_count.rbegin()->second);
  std::vector<RatePoint> kept;
  std::copy_if(points.begin(), points.end(), std::back_inserter(kept), [&](const RatePoint& point) {
    return std::abs(median(by_count[point.producers]) - top) <= plateau_tolerance * top;
  });
  return kept;
}

Estimate drain_estimate(const std::vector<RatePoint>& points, const std::vector<RatePoint>& plateau) {
  if (points.empty()) {
    return no_estimate("no free-running periodic rows without a gap", 0);
  }
  if (plateau.size() < fewest_drain_bound_points) {
    return no_estimate(
        fmt::format("{} drain-bound points, at least {} needed: rows in which a producer gets at most half of the rate "
                    "that it reaches beside few others (producer counts here: {} to {})",
                    plateau.size(), fewest_drain_bound_points, points.front().producers, points.back().producers),
        static_cast<int>(plateau.size()));
  }
  return median_estimate(rates_of(plateau));
}

/// Points at which the drain takes everything that the producers offer. Without a known R the rate per producer itself
/// must be independent of the count.
std::vector<RatePoint> producer_bound_points(const std::vector<RatePoint>& points,
                                             const std::map<std::int64_t, double>& unshared,
                                             const std::optional<double>& drain) {
  double best = 0;
  for (const auto& [bytes, rate] : unshared) {
    best = std::max(best, rate);
  }
  std::vector<RatePoint> kept;
  std::copy_if(points.begin(), points.end(), std::back_inserter(kept), [&](const RatePoint& point) {
    const double alone = unshared.at(point.bytes);
    const bool long_burst = alone >= (1 - overhead_tolerance) * best;
    // Both the offered rate and the measured rate must be low: where all counts are high, `alone` is itself
    // drain-bound.
    const bool unhindered = drain ? std::max(point.producers * alone, point.rate) <= producer_bound_load * *drain
                                  : point.per_producer() >= (1 - overhead_tolerance) * alone;
    return long_burst && unhindered;
  });
  return kept;
}

Estimate producer_estimate(const std::vector<RatePoint>& points, const std::map<std::int64_t, double>& unshared,
                           const std::optional<double>& drain) {
  std::set<int> counts;
  for (const RatePoint& point : points) {
    counts.insert(point.producers);
  }
  if (counts.size() < 2) {
    return no_estimate(
        fmt::format(
            "{} producer count(s) among free-running periodic rows without a gap: at least 2 are needed to tell "
            "the producers' own rate from the drain rate",
            counts.size()),
        0);
  }
  const std::vector<RatePoint> bound = producer_bound_points(points, unshared, drain);
  if (bound.size() < fewest_producer_bound_points) {
    return no_estimate(
        fmt::format("{} producer-bound points, at least {} needed: the lowest producer count, {}, already "
                    "offers about as much as the drain takes",
                    bound.size(), fewest_producer_bound_points, *counts.begin()),
        static_cast<int>(bound.size()));
  }
  std::vector<double> rates;
  std::transform(bound.begin(), bound.end(), std::back_inserter(rates),
                 [](const RatePoint& p) { return p.per_producer(); });
  return median_estimate(rates);
}

}  // namespace

Estimate median_estimate(const std::vector<double>& values) {
  Estimate estimate;
  estimate.value = median(values);
  estimate.points = static_cast<int>(values.size());
  if (values.size() >= 2) {
    const Interval interval = bootstrap_median_interval(values);
    estimate.low = interval.low;
    estimate.high = interval.high;
  }
  return estimate;
}

Estimate no_estimate(std::string reason, int points) {
  Estimate estimate;
  estimate.reason = std::move(reason);
  estimate.points = points;
  return estimate;
}

DrainFit fit_drain(const Rows& rows) {
  const std::vector<RatePoint> points = rate_points(rows);
  const std::map<std::int64_t, double> unshared = unshared_producer_rate(points);
  const std::vector<RatePoint> plateau = plateau_points(drain_bound_points(points, unshared));
  DrainFit fit;
  fit.drain_gb_per_s = drain_estimate(points, plateau);
  fit.producer_drain_gb_per_s = producer_estimate(points, unshared, fit.drain_gb_per_s.value);
  if (fit.drain_gb_per_s.value) {
    std::transform(plateau.begin(), plateau.end(), std::back_inserter(fit.drain_bound),
                   [](const RatePoint& point) { return point.row; });
  }
  return fit;
}

}  // namespace xstage::calibrate
