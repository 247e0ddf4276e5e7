/// What a profile predicts of a measured point.

#include <algorithm>
#include <iterator>
#include <vector>

#include "calibrate/compare.hpp"
#include "xstage/measure.hpp"

namespace xstage {
namespace {

using namespace calibrate;  // NOLINT(google-build-using-namespace): this file is that namespace's front

/// The burst as one sample: its medians.
BurstSample median_sample(const MeasuredPoint& point, const MeasuredBurst& burst) {
  BurstSample sample;
  sample.experiment = point.experiment;
  sample.burst_index = burst.burst_index;
  sample.gap_us = burst.gap_us.value;
  sample.issue_us = burst.issue_us.value;
  sample.period_us = burst.period_us.value;
  return sample;
}

void set_burst(const ComparedSample& compared, double volume_bytes, MeasuredBurst& burst) {
  const auto rate = [&](double period_us) { return volume_bytes / period_us / 1000; };
  burst.issue_us.law = compared.predicted_issue_us;
  burst.issue_us.corrected = compared.uneven_issue_us;
  burst.period_us.law = compared.predicted_period_us;
  burst.period_us.corrected = compared.corrected_period_us;
  burst.rate_gb_per_s.law = rate(compared.predicted_period_us);
  burst.rate_gb_per_s.corrected = rate(compared.corrected_period_us);
}

}  // namespace

std::vector<std::string> predict_point(const Platform& platform, MeasuredPoint& point) {
  const BurstExperiment& experiment = point.experiment;
  const bool path_known = std::any_of(platform.paths.begin(), platform.paths.end(),
                                      [&](const PathProfile& profile) { return profile.path == experiment.path; });
  if (!path_known) {
    return {"the profile has no such store path"};
  }
  const double bytes = static_cast<double>(experiment.bytes);
  const OperatingPointOrReason at = operating_point(platform, experiment.path, experiment.producers, bytes);
  std::vector<BurstSample> samples;
  std::transform(point.bursts.begin(), point.bursts.end(), std::back_inserter(samples),
                 [&](const MeasuredBurst& burst) { return median_sample(point, burst); });
  const bool train = experiment.mode == BurstMode::train;
  const std::vector<ComparedSample> compared =
      train ? compare_train(platform, samples).bursts
            : std::vector<ComparedSample>{compare_steady(platform, samples.front())};
  for (std::size_t index = 0; index < compared.size(); ++index) {
    set_burst(compared[index], bytes * experiment.producers, point.bursts[index]);
  }
  if (at.usable) {
    point.floor_us.law = at.point.issue_floor_us;
    point.alone_complete_us.law = model::drain_time_us(at.point);
    const auto longest = std::max_element(
        point.bursts.begin(), point.bursts.end(),
        [](const MeasuredBurst& one, const MeasuredBurst& other) { return one.issue_us.value < other.issue_us.value; });
    point.stall_us.law = longest->issue_us.law - point.floor_us.law;
    point.stall_us.corrected = longest->issue_us.corrected - point.floor_us.law;
  }
  if (at.usable && at.capacity_known) {
    point.alone_issue_us.law = model::isolated_issue_us(at.point);
  }
  return at.reasons;
}

}  // namespace xstage
