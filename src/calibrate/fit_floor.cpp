#include "calibrate/fit_floor.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>

#include "calibrate/estimators.hpp"

namespace xstage::calibrate {
namespace {

constexpr double outrun_tolerance = 1.1;
/// A free-running gap this much longer than V/R is on the plateau of the issue time, clear of the rounded corner.
constexpr double plateau_gap = 1.25;
/// Below the knee an isolated burst's issue time grows with B at the SM's own pace, beyond it with K/R. Half of K/R
/// separates the two slopes.
constexpr double knee_slope_share = 0.5;

bool has_issue_time(const BurstSample& row) { return std::isfinite(row.issue_us) && row.issue_us > 0; }

bool on_long_gap_plateau(const BurstSample& row, const Rates& rates) {
  return row.experiment.mode == BurstMode::periodic && row.experiment.regime == Regime::free_running &&
         std::isfinite(row.gap_us) &&
         row.gap_us >= plateau_gap * volume_bytes(row) / rates.of(row.experiment.producers);
}

/// Isolated rows of one producer count, up to the last burst size after which the issue time does not yet rise at the
/// drain's pace. The largest size is never included, since nothing shows what comes after it.
Rows rows_before_knee(const Rows& isolated, int producers, const Rates& rates) {
  std::map<std::int64_t, Rows> by_bytes;
  for (const BurstSample* row : isolated) {
    by_bytes[row->experiment.bytes].push_back(row);
  }
  const auto issue = [](const Rows& rows) {
    std::vector<double> times;
    std::transform(rows.begin(), rows.end(), std::back_inserter(times), [](const auto* row) { return row->issue_us; });
    return median(std::move(times));
  };
  Rows kept;
  for (auto here = by_bytes.begin(); here != by_bytes.end() && std::next(here) != by_bytes.end(); ++here) {
    const auto next = std::next(here);
    const double slope = (issue(next->second) - issue(here->second)) / static_cast<double>(next->first - here->first);
    if (slope >= knee_slope_share * producers / rates.drain) {
      break;
    }
    kept.insert(kept.end(), here->second.begin(), here->second.end());
  }
  return kept;
}

Rows rows_without_backpressure(const Rows& rows, const Rates& rates) {
  Rows kept;
  std::map<int, Rows> isolated_by_count;
  for (const BurstSample* row : rows) {
    if (!has_issue_time(*row)) {
      continue;
    }
    const bool isolated = row->experiment.mode == BurstMode::isolated;
    if (isolated && !cannot_outrun_drain(row->experiment.producers, rates)) {
      isolated_by_count[row->experiment.producers].push_back(row);
    } else if (isolated || on_long_gap_plateau(*row, rates)) {
      kept.push_back(row);
    }
  }
  for (const auto& [producers, isolated] : isolated_by_count) {
    const Rows before_knee = rows_before_knee(isolated, producers, rates);
    kept.insert(kept.end(), before_knee.begin(), before_knee.end());
  }
  return kept;
}

std::vector<IssueFloorPoint> floor_table(const Rows& below_knee) {
  std::map<std::int64_t, std::vector<double>> by_bytes;
  for (const BurstSample* row : below_knee) {
    by_bytes[row->experiment.bytes].push_back(row->issue_us);
  }
  std::vector<std::vector<double>> groups;
  groups.reserve(by_bytes.size());
  for (const auto& [bytes, times] : by_bytes) {
    groups.push_back(times);
  }
  const std::vector<double> levels = isotonic_medians(groups);
  std::vector<IssueFloorPoint> table;
  table.reserve(by_bytes.size());
  std::transform(by_bytes.begin(), by_bytes.end(), levels.begin(), std::back_inserter(table),
                 [](const auto& size, double level) {
                   return IssueFloorPoint{static_cast<double>(size.first), level};
                 });
  return table;
}

}  // namespace

double Rates::of(int producers) const { return std::min(producers * producer, drain); }

bool cannot_outrun_drain(int producers, const Rates& rates) {
  return producers * rates.producer <= outrun_tolerance * rates.drain;
}

FloorFit fit_floor(const Rows& rows, const Rates& rates) {
  FloorFit fit;
  fit.below_knee = rows_without_backpressure(rows, rates);
  fit.table = floor_table(fit.below_knee);
  if (fit.table.empty()) {
    fit.reason =
        "no issue time below the knee: neither isolated bursts of few producers or little volume nor free-running "
        "bursts "
        "with a gap of at least 1.25 V/R";
  }
  return fit;
}

}  // namespace xstage::calibrate
