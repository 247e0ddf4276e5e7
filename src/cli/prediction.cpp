#include "cli/prediction.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "cli/exit_code.hpp"
#include "node/words.hpp"
#include "xstage/dispersion.hpp"
#include "xstage/error.hpp"

namespace xstage::cli {

namespace {

PredictedBurst steady_state(const model::OperatingPoint& point, Regime regime, double gap_us) {
  PredictedBurst result;
  result.gap_us = gap_us;
  if (regime == Regime::aligned) {
    result.issue_us = model::aligned::issue_us(point, gap_us);
    result.period_us = model::aligned::period_us(point, gap_us);
  } else {
    result.issue_us = model::free_running::issue_us(point, gap_us);
    result.period_us = model::free_running::period_us(point, gap_us);
    result.fixed_work_period_us = model::free_running::fixed_work_period_us(point, gap_us);
    result.fixed_work_completion_coupled_period_us = model::completion_coupled::fixed_work_period_us(point, gap_us);
  }
  result.overhead_us = result.issue_us - point.issue_floor_us;
  result.completion_coupled_period_us = model::completion_coupled::period_us(point, gap_us);
  return result;
}

/// Beside the recursion, not instead of it: the same train if the two halves of the producers drain at different rates.
/// Empty where the platform does not know how unevenly they do.
std::vector<double> uneven_train(const model::OperatingPoint& point, const Estimate& unevenness, double gap_us,
                                 int bursts) {
  const bool applies =
      unevenness.value && std::isfinite(point.capacity_bytes) && point.capacity_bytes > 0 && point.issue_floor_us > 0;
  if (!applies) {
    return {};
  }
  const std::vector<double> gaps(static_cast<std::size_t>(bursts), gap_us);
  std::vector<double> issue(gaps.size());
  model::uneven_train_issue_us(point, *unevenness.value, gaps, issue);
  return issue;
}

bool for_each_of_train(const model::OperatingPoint& point, const Estimate& unevenness, double gap_us, int bursts,
                       const std::function<bool(const PredictedBurst&)>& use) {
  const std::vector<double> uneven = uneven_train(point, unevenness, gap_us, bursts);
  double backlog = 0;
  for (int index = 0; index < bursts; ++index) {
    const model::aligned::BurstOutcome outcome = model::aligned::next_burst(point, gap_us, backlog);
    backlog = outcome.backlog_at_end_bytes;
    PredictedBurst burst;
    burst.gap_us = gap_us;
    burst.burst_index = index;
    burst.issue_us = outcome.issue_us;
    burst.overhead_us = outcome.issue_us - point.issue_floor_us;
    burst.period_us = outcome.issue_us + gap_us;
    burst.backlog_bytes = backlog;
    burst.completion_coupled_period_us = model::completion_coupled::period_us(point, gap_us);
    if (!uneven.empty()) {
      // However the drain is shared, nothing is visible before it is issued.
      burst.uneven_issue_us = uneven[static_cast<std::size_t>(index)];
      burst.completion_coupled_period_us = std::max(burst.completion_coupled_period_us, burst.uneven_issue_us + gap_us);
    }
    if (!use(burst)) {
      return false;
    }
  }
  return true;
}

OperatingPointOrReason usable_point(const Platform& platform, const std::string& origin,
                                    const PredictionQuestion& question, int producers, double bytes) {
  OperatingPointOrReason point = operating_point(platform, question.path, producers, bytes);
  const bool needs_capacity = question.regime() == Regime::aligned;
  if (point.usable && (point.capacity_known || !needs_capacity)) {
    return point;
  }
  throw InputError(fmt::format("{}: cannot predict {} {} producers of {:.0f} bytes: {}", origin, producers,
                               words_of(question.regime()), bytes, fmt::join(point.reasons, "; ")));
}

}  // namespace

void check_rows(const PredictionQuestion& question) {
  const std::int64_t bursts = std::max(1, question.bursts);
  // In floating point: a product of four lists can have more than 64 bits.
  const double rows = static_cast<double>(question.producers.size()) * static_cast<double>(question.bytes.size()) *
                      static_cast<double>(question.gaps_us.size()) * static_cast<double>(bursts);
  if (rows > static_cast<double>(most_predicted_rows)) {
    throw UsageError(fmt::format(
        "--producers, --bytes, --gap and --bursts: {} x {} x {} x {} are {:.0f} rows: must be at most {}",
        question.producers.size(), question.bytes.size(), question.gaps_us.size(), bursts, rows, most_predicted_rows));
  }
}

void for_each_point(const Platform& platform, const std::string& origin, const PredictionQuestion& question,
                    const std::function<void(const PredictedPoint&)>& use) {
  for (const int producers : question.producers) {
    for (const double bytes : question.bytes) {
      use({producers, bytes, usable_point(platform, origin, question, producers, bytes)});
    }
  }
}

bool for_each_burst(const PredictedPoint& point, const Estimate& unevenness, const PredictionQuestion& question,
                    const std::function<bool(const PredictedBurst&)>& use) {
  const model::OperatingPoint& numbers = point.found.point;
  return std::all_of(question.gaps_us.begin(), question.gaps_us.end(), [&](double gap_us) {
    return question.bursts > 0 ? for_each_of_train(numbers, unevenness, gap_us, question.bursts, use)
                               : use(steady_state(numbers, question.regime(), gap_us));
  });
}

}  // namespace xstage::cli
