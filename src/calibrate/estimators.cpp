#include "calibrate/estimators.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <random>

#include "node/quantiles.hpp"

namespace xstage::calibrate {
namespace {

constexpr int resamples = 2000;
constexpr std::uint64_t bootstrap_seed = 0x5853544147450001;  // "XSTAGE", 1: any constant, so that a fit is repeatable

/// A run of neighbouring groups that share one level.
struct Pool {
  std::vector<double> values;
  std::size_t groups = 1;
  double level = 0;
};

Pool merged(Pool left, Pool right) {
  std::move(right.values.begin(), right.values.end(), std::back_inserter(left.values));
  left.groups += right.groups;
  left.level = median(left.values);
  return left;
}

}  // namespace

double percentile(std::vector<double> values, double percent) {
  if (values.empty()) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  std::sort(values.begin(), values.end());
  return quantile_of_sorted(values, percent / 100);
}

double median(std::vector<double> values) { return percentile(std::move(values), 50); }

double theil_sen_slope(std::span<const std::pair<double, double>> points) {
  std::vector<double> slopes;
  for (std::size_t i = 0; i < points.size(); ++i) {
    for (std::size_t j = i + 1; j < points.size(); ++j) {
      const double run = points[j].first - points[i].first;
      if (run != 0) {
        slopes.push_back((points[j].second - points[i].second) / run);
      }
    }
  }
  return median(std::move(slopes));
}

Interval bootstrap_median_interval(std::span<const double> values) {
  if (values.empty()) {
    return {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::quiet_NaN()};
  }
  // The remainder, not std::uniform_int_distribution: its draws differ between standard libraries.
  std::mt19937_64 random(bootstrap_seed);
  std::vector<double> medians;
  std::vector<double> drawn(values.size());
  for (int resample = 0; resample < resamples; ++resample) {
    std::generate(drawn.begin(), drawn.end(), [&] { return values[random() % values.size()]; });
    medians.push_back(median(drawn));
  }
  return {percentile(medians, 2.5), percentile(medians, 97.5)};
}

std::vector<double> isotonic_medians(const std::vector<std::vector<double>>& groups) {
  std::vector<Pool> pools;
  for (const std::vector<double>& group : groups) {
    pools.push_back({group, 1, median(group)});
    while (pools.size() > 1 && pools[pools.size() - 2].level > pools.back().level) {
      Pool right = std::move(pools.back());
      pools.pop_back();
      pools.back() = merged(std::move(pools.back()), std::move(right));
    }
  }
  std::vector<double> levels;
  for (const Pool& pool : pools) {
    levels.insert(levels.end(), pool.groups, pool.level);
  }
  return levels;
}

}  // namespace xstage::calibrate
