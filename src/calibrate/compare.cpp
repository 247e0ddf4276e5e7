#include "calibrate/compare.hpp"

#include <algorithm>
#include <cmath>

#include "xstage/dispersion.hpp"

namespace xstage::calibrate {
namespace {

/// The smallest rise of a train's issue time that counts as back-pressure: above the spread of undisturbed bursts,
/// below what one burst adds (V/R less the gap, a microsecond and more).
constexpr double onset_tolerance_us = 0.1;
constexpr double onset_tolerance_share = 0.2;

double onset_tolerance(const model::OperatingPoint& point) {
  return std::max(onset_tolerance_us, onset_tolerance_share * point.issue_floor_us);
}

bool has_path(const Platform& platform, StorePath path) {
  return std::any_of(platform.paths.begin(), platform.paths.end(),
                     [&](const PathProfile& profile) { return profile.path == path; });
}

OperatingPointOrReason point_of(const Platform& platform, const BurstSample& sample) {
  const BurstExperiment& experiment = sample.experiment;
  if (!has_path(platform, experiment.path)) {
    OperatingPointOrReason none;
    none.usable = false;
    none.capacity_known = false;
    none.reasons.emplace_back("the profile has no such store path");
    return none;
  }
  return operating_point(platform, experiment.path, experiment.producers, static_cast<double>(experiment.bytes));
}

bool is_gap(double gap_us) { return std::isfinite(gap_us) && gap_us >= 0; }

/// Predictions that every kind of sample has: its drain time and the completion-coupled counterfactual.
ComparedSample drained(const OperatingPointOrReason& at, const BurstSample& sample) {
  ComparedSample compared;
  compared.sample = sample;
  if (at.usable) {
    compared.drain_time_us = model::drain_time_us(at.point);
    if (is_gap(sample.gap_us)) {
      compared.completion_coupled_period_us = model::completion_coupled::period_us(at.point, sample.gap_us);
    }
  }
  return compared;
}

void predict_periodic(const OperatingPointOrReason& at, ComparedSample& compared) {
  const double gap = compared.sample.gap_us;
  if (!is_gap(gap)) {
    return;
  }
  if (compared.sample.experiment.regime == Regime::free_running) {
    compared.predicted_period_us = model::free_running::period_us(at.point, gap);
    if (compared.sample.experiment.mode == BurstMode::fixed_work) {
      compared.corrected_period_us = model::free_running::fixed_work_period_us(at.point, gap);
    } else {
      compared.predicted_issue_us = model::free_running::issue_us(at.point, gap);
    }
  } else if (at.capacity_known) {
    compared.predicted_issue_us = model::aligned::issue_us(at.point, gap);
    compared.predicted_period_us = model::aligned::period_us(at.point, gap);
  }
}

/// Predicts a train by the backlog recursion with the gap measured before each burst. Stops where a gap is missing. A
/// burst's period ends with its start, as in the sample.
void predict_train(const model::OperatingPoint& point, std::vector<ComparedSample>& bursts) {
  double backlog = 0;
  double previous_issue = 0;
  for (ComparedSample& burst : bursts) {
    const bool first = burst.sample.burst_index == 0;
    const double gap = burst.sample.gap_us;
    if (!first && !is_gap(gap)) {
      break;
    }
    const model::aligned::BurstOutcome outcome = model::aligned::next_burst(point, first ? 0 : gap, backlog);
    burst.predicted_issue_us = outcome.issue_us;
    if (!first) {
      burst.predicted_period_us = previous_issue + gap;
    }
    previous_issue = outcome.issue_us;
    backlog = outcome.backlog_at_end_bytes;
  }
}

/// Predicts the same train with two halves of producers that drain unevenly.
void predict_uneven_train(const model::OperatingPoint& point, double unevenness, std::vector<ComparedSample>& bursts) {
  std::vector<double> gaps;
  for (const ComparedSample& burst : bursts) {
    const double gap = burst.sample.gap_us;
    if (!gaps.empty() && !is_gap(gap)) {
      return;
    }
    gaps.push_back(gaps.empty() ? 0 : gap);
  }
  std::vector<double> issue(gaps.size());
  model::uneven_train_issue_us(point, unevenness, gaps, issue);
  for (std::size_t burst = 0; burst < bursts.size(); ++burst) {
    bursts[burst].uneven_issue_us = issue[burst];
  }
}

/// model::onset_of_backpressure, in which "never" becomes "after the last burst", so that a difference of onsets is
/// defined.
std::ptrdiff_t onset_or_end(const std::vector<double>& issue_us, const model::OperatingPoint& point) {
  const std::ptrdiff_t onset = model::onset_of_backpressure(issue_us, point.issue_floor_us, onset_tolerance(point));
  return onset < 0 ? static_cast<std::ptrdiff_t>(issue_us.size()) : onset;
}

std::optional<Onset> onset_of(const model::OperatingPoint& point, const std::vector<ComparedSample>& bursts,
                              double ComparedSample::*prediction) {
  std::vector<double> predicted;
  std::vector<double> measured;
  for (const ComparedSample& burst : bursts) {
    predicted.push_back(burst.*prediction);
    measured.push_back(burst.sample.issue_us);
  }
  if (!std::all_of(predicted.begin(), predicted.end(), [](double issue) { return std::isfinite(issue); })) {
    return std::nullopt;
  }
  return Onset{onset_or_end(predicted, point), onset_or_end(measured, point)};
}

bool starts_and_counts_up(std::span<const BurstSample> train) {
  for (std::size_t burst = 0; burst < train.size(); ++burst) {
    if (train[burst].burst_index != static_cast<int>(burst)) {
      return false;
    }
  }
  return true;
}

}  // namespace

bool is_steady_state(BurstMode mode) { return mode == BurstMode::periodic || mode == BurstMode::fixed_work; }

ComparedSample compare_steady(const Platform& platform, const BurstSample& sample) {
  const OperatingPointOrReason at = point_of(platform, sample);
  ComparedSample compared = drained(at, sample);
  if (!at.usable) {
    return compared;
  }
  if (is_steady_state(sample.experiment.mode)) {
    predict_periodic(at, compared);
  } else if (at.capacity_known) {
    compared.predicted_issue_us = model::isolated_issue_us(at.point);
  }
  return compared;
}

ComparedTrain compare_train(const Platform& platform, std::span<const BurstSample> train) {
  ComparedTrain compared;
  const OperatingPointOrReason at = point_of(platform, train.front());
  for (const BurstSample& sample : train) {
    compared.bursts.push_back(drained(at, sample));
  }
  if (at.usable && at.capacity_known && starts_and_counts_up(train)) {
    predict_train(at.point, compared.bursts);
    compared.onset = onset_of(at.point, compared.bursts, &ComparedSample::predicted_issue_us);
    const Estimate& unevenness = path_profile(platform, train.front().experiment.path).drain_unevenness;
    if (unevenness.value && std::isfinite(at.point.capacity_bytes)) {
      predict_uneven_train(at.point, *unevenness.value, compared.bursts);
      compared.uneven_onset = onset_of(at.point, compared.bursts, &ComparedSample::uneven_issue_us);
    }
  }
  return compared;
}

bool is_beyond_knee(const Platform& platform, const ComparedSample& isolated) {
  const OperatingPointOrReason at = point_of(platform, isolated.sample);
  const double beyond = at.point.issue_floor_us + onset_tolerance(at.point);
  return at.usable && (isolated.predicted_issue_us > at.point.issue_floor_us || isolated.sample.issue_us > beyond);
}

}  // namespace xstage::calibrate
