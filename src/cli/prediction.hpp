#pragma once
/// What `predict` asks of a platform, and its answers one by one.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "xstage/node.hpp"
#include "xstage/platform.hpp"

namespace xstage::cli {

/// Every combination of producers, bytes and gaps; each a steady state, or a train of `bursts`.
struct PredictionQuestion {
  std::vector<int> producers;
  std::vector<double> bytes;
  std::vector<double> gaps_us;
  int bursts = 0;  ///< 0: steady state
  bool aligned = false;
  StorePath path = StorePath::store16;

  /// Trains are aligned: the recursion describes nothing else.
  [[nodiscard]] Regime regime() const { return aligned || bursts > 0 ? Regime::aligned : Regime::free_running; }
  [[nodiscard]] BurstMode mode() const { return bursts > 0 ? BurstMode::train : BurstMode::periodic; }
  [[nodiscard]] bool one_point() const { return producers.size() == 1 && bytes.size() == 1; }
};

/// K producers of B bytes each, and what the platform knows about them.
struct PredictedPoint {
  int producers = 0;
  double bytes = 0;
  OperatingPointOrReason found;
};

/// One row of the answer: a gap in steady state, or one burst of a train.
struct PredictedBurst {
  double gap_us = 0;
  int burst_index = -1;
  double issue_us = 0;
  double overhead_us = 0;
  double period_us = 0;
  double backlog_bytes = not_measured;  ///< outstanding when the burst ends (trains)
  double completion_coupled_period_us = 0;
  double uneven_issue_us = not_measured;  ///< trains: issue time if the drain is shared unevenly
  /// Free-running: each producer has a fixed number of bursts; not waiting for completion, and waiting.
  double fixed_work_period_us = not_measured;
  double fixed_work_completion_coupled_period_us = not_measured;
};

/// More rows than anybody reads; a mistyped range should not run for hours.
inline constexpr std::int64_t most_predicted_rows = 1000000;

/// Throws UsageError if the answer had more rows than that.
void check_rows(const PredictionQuestion& question);

/// Calls `use` with every point, in the order of the question. Throws InputError at the first one for which the
/// platform lacks a number that its prediction needs; `origin` is the platform's file.
void for_each_point(const Platform& platform, const std::string& origin, const PredictionQuestion& question,
                    const std::function<void(const PredictedPoint&)>& use);

/// Calls `use` with every row of one point until it returns false. Returns whether it never did. Holds no more than one
/// train's issue times.
bool for_each_burst(const PredictedPoint& point, const Estimate& unevenness, const PredictionQuestion& question,
                    const std::function<bool(const PredictedBurst&)>& use);

}  // namespace xstage::cli
