#include "node/burst_trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "node/quantiles.hpp"
#include "xstage/error.hpp"

namespace xstage {
namespace {

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

void require_bursts(const BurstTrace& trace, std::size_t least) {
  if (trace.producers.empty()) {
    throw InputError("burst trace without producers: an experiment needs at least one");
  }
  for (const auto& producer : trace.producers) {
    if (producer.size() < least) {
      throw InputError(
          fmt::format("a producer made {} bursts: this experiment needs at least {}", producer.size(), least));
    }
  }
}

/// One burst of an aligned experiment, over all producers.
struct AlignedBurst {
  double issue_us;
  double slowest_us;
  double gap_us;      // since the same producers' previous burst
  double period_us;   // start to start
  double visible_us;  // first start to last fence
};

AlignedBurst aligned_burst(const BurstTrace& trace, std::size_t index) {
  AlignedBurst result{0, 0, 0, 0, not_measured};
  double first_start = std::numeric_limits<double>::infinity();
  double last_visible = -std::numeric_limits<double>::infinity();
  for (const auto& producer : trace.producers) {
    const TracedBurst& burst = producer[index];
    const double issue = burst.issued_us - burst.start_us;
    result.issue_us += issue;
    result.slowest_us = std::max(result.slowest_us, issue);
    first_start = std::min(first_start, burst.start_us);
    last_visible = std::max(last_visible, burst.visible_us);
    if (index > 0) {
      result.gap_us += burst.start_us - producer[index - 1].issued_us;
      result.period_us += burst.start_us - producer[index - 1].start_us;
    }
  }
  const auto count = static_cast<double>(trace.producers.size());
  result.issue_us /= count;
  result.gap_us /= count;
  result.period_us /= count;
  if (std::isfinite(last_visible)) {
    result.visible_us = last_visible - first_start;
  }
  return result;
}

void collect_issue_times(const BurstTrace& trace, std::size_t index, std::vector<double>& issue) {
  for (const auto& producer : trace.producers) {
    issue.push_back(producer[index].issued_us - producer[index].start_us);
  }
}

void set_percentiles(std::vector<double> issue, BurstSample& sample) {
  std::sort(issue.begin(), issue.end());
  sample.issue_p5_us = quantile_of_sorted(issue, 0.05);
  sample.issue_p95_us = quantile_of_sorted(issue, 0.95);
}

double bytes_of(const BurstExperiment& experiment, double bursts) {
  return static_cast<double>(experiment.bytes) * experiment.producers * bursts;
}

/// Summary of burst `position` of every train in all trials: the median repetition, for each quantity by itself.
BurstSample summarise_position(const BurstExperiment& experiment, int train_length, int position,
                               const std::vector<BurstTrace>& trials) {
  std::vector<double> issue_all;
  std::vector<double> issue;
  std::vector<double> slowest;
  std::vector<double> gap;
  std::vector<double> period;
  std::vector<double> visible;
  for (const BurstTrace& trace : trials) {
    const std::size_t bursts = trace.producers.front().size();
    for (auto index = static_cast<std::size_t>(position); index < bursts;
         index += static_cast<std::size_t>(train_length)) {
      const AlignedBurst burst = aligned_burst(trace, index);
      collect_issue_times(trace, index, issue_all);
      issue.push_back(burst.issue_us);
      slowest.push_back(burst.slowest_us);
      visible.push_back(burst.visible_us);
      if (index > 0) {
        gap.push_back(burst.gap_us);
        period.push_back(burst.period_us);
      }
    }
  }
  BurstSample sample;
  sample.experiment = experiment;
  sample.burst_index = experiment.mode == BurstMode::train ? position : -1;
  sample.issue_us = median_of(issue);
  sample.issue_slowest_us = median_of(slowest);
  if (!gap.empty()) {
    sample.gap_us = median_of(gap);
  }
  if (experiment.mode == BurstMode::isolated) {
    sample.visible_us = median_of(visible);
  } else if (position > 0) {
    sample.period_us = median_of(period);
  }
  set_percentiles(std::move(issue_all), sample);
  sample.stored_bytes = bytes_of(experiment, static_cast<double>(issue.size()));
  return sample;
}

BurstSample summarise_aligned_trial(const BurstExperiment& experiment, const BurstTrace& trace) {
  const std::size_t bursts = trace.producers.front().size();
  const std::size_t first = std::max<std::size_t>(1, bursts / 4);
  std::vector<double> issue_all;
  std::vector<double> issue;
  std::vector<double> slowest;
  std::vector<double> gap;
  for (std::size_t index = first; index < bursts; ++index) {
    const AlignedBurst burst = aligned_burst(trace, index);
    collect_issue_times(trace, index, issue_all);
    issue.push_back(burst.issue_us);
    slowest.push_back(burst.slowest_us);
    gap.push_back(burst.gap_us);
  }
  BurstSample sample;
  sample.experiment = experiment;
  sample.issue_us = mean_of(issue);
  sample.issue_slowest_us = median_of(slowest);
  sample.gap_us = mean_of(gap);
  sample.period_us = sample.issue_us + sample.gap_us;
  sample.stored_bytes = bytes_of(experiment, static_cast<double>(issue.size()));
  sample.window_us = sample.period_us * static_cast<double>(issue.size());
  set_percentiles(std::move(issue_all), sample);
  return sample;
}

/// Number of bursts that started before `time`, and the fraction of the period that has passed since: a linear
/// interpolation of the start times.
double bursts_before(const std::vector<TracedBurst>& bursts, double time) {
  const auto next = std::upper_bound(bursts.begin(), bursts.end(), time,
                                     [](double value, const TracedBurst& burst) { return value < burst.start_us; });
  const auto index = next - bursts.begin();
  if (index == 0 || next == bursts.end()) {
    return static_cast<double>(index == 0 ? 0 : index - 1);
  }
  const TracedBurst& current = *(next - 1);
  return static_cast<double>(index - 1) + (time - current.start_us) / (next->start_us - current.start_us);
}

struct Window {
  double begin_us;
  double end_us;
};

/// The window from a quarter of the run to the earliest last start of any producer.
Window common_window(const BurstTrace& trace) {
  double first = -std::numeric_limits<double>::infinity();
  double last = std::numeric_limits<double>::infinity();
  for (const auto& producer : trace.producers) {
    first = std::max(first, producer.front().start_us);
    last = std::min(last, producer.back().start_us);
  }
  return {first + 0.25 * (last - first), last};
}

/// Issue times and gaps of the bursts that started within a window.
struct WindowStatistics {
  std::vector<double> issue;
  std::vector<double> gaps;
  double slowest_mean_us = 0;  // largest mean issue time of any producer
};

WindowStatistics collect(const BurstTrace& trace, const Window& window) {
  WindowStatistics statistics;
  for (const auto& producer : trace.producers) {
    double issue_sum = 0;
    std::size_t count = 0;
    for (std::size_t index = 0; index + 1 < producer.size(); ++index) {
      const TracedBurst& burst = producer[index];
      if (burst.start_us < window.begin_us || burst.start_us >= window.end_us) {
        continue;
      }
      issue_sum += burst.issued_us - burst.start_us;
      ++count;
      statistics.issue.push_back(burst.issued_us - burst.start_us);
      statistics.gaps.push_back(producer[index + 1].start_us - burst.issued_us);
    }
    if (count > 0) {
      statistics.slowest_mean_us = std::max(statistics.slowest_mean_us, issue_sum / static_cast<double>(count));
    }
  }
  if (statistics.issue.empty()) {
    throw InputError("no burst started in the common window: the experiment needs more bursts");
  }
  return statistics;
}

BurstSample sample_from(const BurstExperiment& experiment, WindowStatistics statistics) {
  BurstSample sample;
  sample.experiment = experiment;
  sample.issue_us = mean_of(statistics.issue);
  sample.issue_slowest_us = statistics.slowest_mean_us;
  sample.gap_us = mean_of(statistics.gaps);
  set_percentiles(std::move(statistics.issue), sample);
  return sample;
}

BurstSample summarise_steady_trial(const BurstExperiment& experiment, const BurstTrace& trace) {
  const Window window = common_window(trace);
  const double length = window.end_us - window.begin_us;
  if (!(length > 0)) {
    throw InputError("no time in which all producers run: the experiment needs more bursts");
  }
  double periods = 0;
  for (const auto& producer : trace.producers) {
    periods += bursts_before(producer, window.end_us) - bursts_before(producer, window.begin_us);
  }
  BurstSample sample = sample_from(experiment, collect(trace, window));
  sample.period_us = length * static_cast<double>(trace.producers.size()) / periods;
  sample.stored_bytes = periods * static_cast<double>(experiment.bytes);
  sample.window_us = length;
  return sample;
}

BurstSample summarise_fixed_work_trial(const BurstExperiment& experiment, const BurstTrace& trace) {
  Window run{std::numeric_limits<double>::infinity(), 0};
  for (const auto& producer : trace.producers) {
    run.begin_us = std::min(run.begin_us, producer.front().start_us);
    run.end_us = std::max(run.end_us, producer.back().issued_us);
  }
  BurstSample sample = sample_from(experiment, collect(trace, run));
  const auto bursts = static_cast<double>(trace.producers.front().size());
  sample.window_us = run.end_us - run.begin_us;
  sample.period_us = (sample.window_us + sample.gap_us) / bursts;
  sample.stored_bytes = bytes_of(experiment, bursts);
  return sample;
}

BurstSample median_trial_by_period(std::vector<BurstSample> samples) {
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end(),
                   [](const BurstSample& a, const BurstSample& b) { return a.period_us < b.period_us; });
  return *middle;
}

BurstSample summarise_long_trial(const BurstExperiment& experiment, const BurstTrace& trace) {
  if (experiment.mode == BurstMode::fixed_work) {
    return summarise_fixed_work_trial(experiment, trace);
  }
  return experiment.regime == Regime::aligned ? summarise_aligned_trial(experiment, trace)
                                              : summarise_steady_trial(experiment, trace);
}

BurstSample summarise_long(const BurstExperiment& experiment, const std::vector<BurstTrace>& trials) {
  std::vector<BurstSample> samples;
  samples.reserve(trials.size());
  for (const BurstTrace& trace : trials) {
    samples.push_back(summarise_long_trial(experiment, trace));
  }
  return median_trial_by_period(std::move(samples));
}

}  // namespace

std::vector<BurstSample> summarise(const BurstExperiment& experiment, int train_length,
                                   const std::vector<BurstTrace>& trials) {
  if (trials.empty()) {
    throw InputError("no trial to summarise");
  }
  const bool long_run = experiment.mode == BurstMode::periodic || experiment.mode == BurstMode::fixed_work;
  for (const BurstTrace& trace : trials) {
    require_bursts(trace, long_run ? 2 : static_cast<std::size_t>(train_length));
  }
  std::vector<BurstSample> samples;
  if (long_run) {
    samples.push_back(summarise_long(experiment, trials));
  } else {
    for (int position = 0; position < train_length; ++position) {
      samples.push_back(summarise_position(experiment, train_length, position, trials));
    }
  }
  for (BurstSample& sample : samples) {
    sample.trials = static_cast<int>(trials.size());
    sample.clock_mhz = trials.front().clock_mhz;
  }
  return samples;
}

}  // namespace xstage
