/// Assembles a platform profile from samples: each store path's R, T_iss0 and Q, in the order in which they depend on
/// each other, and how well they describe the samples that they came from.

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "calibrate/estimators.hpp"
#include "calibrate/fit_capacity.hpp"
#include "calibrate/fit_drain.hpp"
#include "calibrate/fit_floor.hpp"
#include "calibrate/fit_unevenness.hpp"
#include "calibrate/rows.hpp"
#include "xstage/calibrate.hpp"
#include "xstage/error.hpp"

namespace xstage {
namespace {

using namespace calibrate;  // NOLINT(google-build-using-namespace): this file is that namespace's front

constexpr double bytes_per_us_per_gb_per_s = 1000;

Rates known_rates(const DrainFit& drain) {
  Rates rates;
  rates.drain = *drain.drain_gb_per_s.value * bytes_per_us_per_gb_per_s;
  rates.producer = drain.producer_drain_gb_per_s.value
                       ? *drain.producer_drain_gb_per_s.value * bytes_per_us_per_gb_per_s
                       : std::numeric_limits<double>::infinity();
  return rates;
}

void describe_drain(const DrainFit& drain, GoodnessOfFit& goodness) {
  const Rates rates = known_rates(drain);
  std::vector<double> errors;
  for (const BurstSample* row : drain.drain_bound) {
    if (std::isfinite(row->period_us) && row->period_us > 0) {
      const double predicted = volume_bytes(*row) / rates.of(row->experiment.producers);
      errors.push_back(std::abs(predicted - row->period_us) / row->period_us);
    }
  }
  if (!errors.empty()) {
    goodness.drain_median_error = median(errors);
    goodness.drain_worst_error = *std::max_element(errors.begin(), errors.end());
  }
}

void describe_floor(const FloorFit& floor, GoodnessOfFit& goodness) {
  for (const BurstSample* row : floor.below_knee) {
    const double predicted = issue_floor_us(floor.table, static_cast<double>(row->experiment.bytes));
    const double error = std::abs(predicted - row->issue_us) / row->issue_us;
    goodness.floor_worst_error = std::fmax(goodness.floor_worst_error, error);  // fmax passes over the initial NaN
  }
}

PathProfile fit_path(const Rows& rows) {
  PathProfile profile;
  profile.path = rows.front()->experiment.path;
  profile.threads = rows.front()->experiment.threads;
  const DrainFit drain = fit_drain(rows);
  profile.drain_gb_per_s = drain.drain_gb_per_s;
  profile.producer_drain_gb_per_s = drain.producer_drain_gb_per_s;
  if (!drain.drain_gb_per_s.value) {
    profile.issue_floor_reason = "R is unknown, so nothing tells a floor from back-pressure";
    profile.capacity = fit_capacity(rows, {}, {}, "R is unknown");
    profile.drain_unevenness = no_estimate("R is unknown", 0);
    return profile;
  }
  const Rates rates = known_rates(drain);
  const FloorFit floor = fit_floor(rows, rates);
  profile.issue_floor = floor.table;
  profile.issue_floor_reason = floor.reason;
  profile.capacity = fit_capacity(rows, rates, floor.table, floor.table.empty() ? "T_iss0 is unknown" : "");
  profile.drain_unevenness = fit_unevenness(rows, profile.capacity);
  describe_drain(drain, profile.goodness);
  describe_floor(floor, profile.goodness);
  return profile;
}

/// R of one pair. One row suffices, since the reference pair has shown at which producer counts the drain saturates.
Estimate fit_pair(const Rows& rows, const PathProfile& reference) {
  if (!reference.drain_gb_per_s.value || !reference.producer_drain_gb_per_s.value) {
    return no_estimate("the reference pair has no drain or producer rate to tell drain-bound rows by", 0);
  }
  std::vector<double> rates;
  for (const BurstSample* row : zero_gap_rows(rows)) {
    const double offered = row->experiment.producers * *reference.producer_drain_gb_per_s.value;
    const double rate = rate_gb_per_s(*row);
    if (std::isfinite(rate) && offered >= 2 * *reference.drain_gb_per_s.value) {
      rates.push_back(rate);
    }
  }
  return rates.empty() ? no_estimate("no drain-bound rows of this pair", 0) : median_estimate(rates);
}

std::vector<PairDrain> fit_pairs(const Rows& plain, const std::vector<PathProfile>& paths) {
  std::set<DevicePair> pairs;
  std::set<int> devices;
  for (const BurstSample* row : plain) {
    pairs.insert({row->experiment.source, row->experiment.destinations.front()});
    devices.insert({row->experiment.source, row->experiment.destinations.front()});
  }
  std::vector<PairDrain> drains;
  if (devices.size() <= 2) {
    return drains;
  }
  // The widest stores come first: the sweep of pairs uses one path only, and all paths drain alike.
  const auto reference = std::find_if(paths.begin(), paths.end(),
                                      [](const PathProfile& profile) { return profile.path == StorePath::store16; });
  const PathProfile& profile = reference == paths.end() ? paths.front() : *reference;
  for (const DevicePair& pair : pairs) {
    const Rows rows = rows_of_path(rows_of_pair(plain, pair), profile.path);
    drains.push_back({pair.source, pair.destination, fit_pair(rows, profile)});
  }
  return drains;
}

Estimate fit_link_counter_ratio(const Rows& plain) {
  std::vector<double> ratios;
  for (const BurstSample* row : plain) {
    if (std::isfinite(row->link_bytes) && row->stored_bytes > 0) {
      ratios.push_back(row->link_bytes / row->stored_bytes);
    }
  }
  return ratios.empty() ? no_estimate("no row has link counter bytes", 0) : median_estimate(ratios);
}

}  // namespace

Platform fit(const SamplesFile& samples) {
  const Rows plain = plain_rows(samples);
  if (plain.empty()) {
    throw InputError(
        fmt::format("{} samples, none usable: a fit needs remote rows, one way to one destination, with a spinning gap "
                    "and not held out",
                    samples.samples.size()));
  }
  Platform platform;
  platform.node = samples.node;
  const Rows reference = rows_of_pair(plain, reference_pair(plain));
  for (const StorePath path : {StorePath::store4, StorePath::store8, StorePath::store16, StorePath::bulk}) {
    const Rows rows = rows_of_path(reference, path);
    if (!rows.empty()) {
      platform.paths.push_back(fit_path(rows));
    }
  }
  platform.pairs = fit_pairs(plain, platform.paths);
  platform.link_counter_ratio = fit_link_counter_ratio(plain);
  return platform;
}

}  // namespace xstage
