/// Runs one point of a node, with the two bursts that it is compared with.

#include "xstage/measure.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>

#include "calibrate/compare.hpp"
#include "calibrate/estimators.hpp"
#include "calibrate/recorded_points.hpp"
#include "calibrate/rows.hpp"
#include "calibrate/sweep.hpp"
#include "xstage/error.hpp"

namespace xstage {
namespace {

using namespace calibrate;  // NOLINT(google-build-using-namespace): this file is that namespace's front

using Samples = std::vector<BurstSample>;

/// Few producers that the drain keeps up with, as in a calibration's table of issue floors.
constexpr int most_floor_producers = 4;

/// The point, and what tells whether it stalls.
struct PointPlan {
  BurstExperiment point;
  BurstExperiment alone;
  BurstExperiment floor;
};

PointPlan plan_of(const NodeDescription& node, const BurstExperiment& asked) {
  PointPlan plan;
  plan.point = asked;
  if (asked.bursts == 0) {
    const SweepScale scale = scale_of(node, false);
    plan.point.bursts = asked.mode == BurstMode::train ? 12
                        : asked.mode == BurstMode::fixed_work
                            ? 100
                            : periodic(scale, asked.path, asked.regime, std::max(1, asked.producers),
                                       std::max<std::int64_t>(1, asked.bytes), asked.gap_us)
                                  .bursts;
  }
  plan.alone = isolated(asked.path, asked.producers, asked.bytes);
  plan.alone.source = asked.source;
  plan.alone.destinations = asked.destinations;
  plan.alone.held_out = asked.held_out;
  plan.floor = plan.alone;
  plan.floor.producers = std::min(most_floor_producers, asked.producers);
  return plan;
}

/// What each experiment of the plan measured.
struct Measured {
  Samples point;
  Samples alone;
  Samples floor;
  Samples in_order;
};

void append(const Samples& from, Samples& to) { to.insert(to.end(), from.begin(), from.end()); }

void keep(const Samples& samples, Samples& role, Samples& in_order) {
  append(samples, role);
  append(samples, in_order);
}

Measured replay(Node& node, const std::vector<BurstExperiment>& recorded, const PointPlan& plan) {
  Measured measured;
  const auto run_all = [&](const std::vector<BurstExperiment>& experiments, Samples& role) {
    for (const BurstExperiment& experiment : experiments) {
      keep(node.run(experiment), role, measured.in_order);
    }
  };
  run_all(require_point(recorded, plan.point, node.describe().name), measured.point);
  run_all(same_point(recorded, plan.alone), measured.alone);
  if (plan.floor == plan.alone) {
    measured.floor = measured.alone;
  } else {
    run_all(same_point(recorded, plan.floor), measured.floor);
  }
  return measured;
}

Measured run_all(const NodeOfRepetition& node, const PointPlan& plan, int repetitions, const Progress& progress) {
  Measured measured;
  const bool few = plan.floor == plan.alone;
  const std::size_t each = few ? 2 : 3;
  std::size_t done = 0;
  const auto run_one = [&](int repetition, const BurstExperiment& experiment, Samples& role) {
    if (progress && !progress(done++, each * static_cast<std::size_t>(repetitions))) {
      throw Interrupted();
    }
    keep(node(repetition).run(experiment), role, measured.in_order);
  };
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    run_one(repetition, plan.point, measured.point);
    run_one(repetition, plan.alone, measured.alone);
    if (!few) {
      run_one(repetition, plan.floor, measured.floor);
    }
  }
  if (few) {
    measured.floor = measured.alone;
  }
  return measured;
}

MeasuredValue value_of(std::vector<double> values) {
  std::erase_if(values, [](double value) { return !std::isfinite(value); });
  MeasuredValue result;
  result.repetitions = static_cast<int>(values.size());
  result.value = median(values);
  if (values.size() > 1) {
    const Interval interval = bootstrap_median_interval(values);
    result.low = interval.low;
    result.high = interval.high;
  }
  return result;
}

template <typename Read>
MeasuredValue value_of(const Samples& samples, Read read) {
  std::vector<double> values;
  std::transform(samples.begin(), samples.end(), std::back_inserter(values), read);
  return value_of(std::move(values));
}

MeasuredBurst burst_of(const Samples& repetitions) {
  MeasuredBurst burst;
  burst.burst_index = repetitions.front().burst_index;
  burst.issue_us = value_of(repetitions, [](const BurstSample& sample) { return sample.issue_us; });
  burst.issue_p5_us = value_of(repetitions, [](const BurstSample& sample) { return sample.issue_p5_us; });
  burst.issue_p95_us = value_of(repetitions, [](const BurstSample& sample) { return sample.issue_p95_us; });
  burst.slowest_issue_us = value_of(repetitions, [](const BurstSample& sample) { return sample.issue_slowest_us; });
  if (burst.burst_index != 0) {  // the first burst of a train has nothing before it
    burst.gap_us = value_of(repetitions, [](const BurstSample& sample) { return sample.gap_us; });
  }
  burst.period_us = value_of(repetitions, [](const BurstSample& sample) { return sample.period_us; });
  burst.rate_gb_per_s = value_of(repetitions, [](const BurstSample& sample) { return rate_gb_per_s(sample); });
  return burst;
}

/// The smallest rise that counts, as at the onset of a train's back-pressure.
double tolerance_of(double floor_us) { return std::max(0.1, 0.2 * floor_us); }

/// Of the point's longest burst: a train stalls if one of its bursts does.
void judge(MeasuredPoint& point) {
  const auto longest = std::max_element(
      point.bursts.begin(), point.bursts.end(),
      [](const MeasuredBurst& one, const MeasuredBurst& other) { return one.issue_us.value < other.issue_us.value; });
  const MeasuredValue& issue = longest->issue_us;
  if (!std::isfinite(point.floor_us.value) || !std::isfinite(issue.value)) {
    return;
  }
  const double floor_us = point.floor_us.value;
  point.tolerance_us = tolerance_of(floor_us);
  point.stall_us = {issue.value - floor_us, issue.low - floor_us, issue.high - floor_us, issue.repetitions};
  const bool interval = std::isfinite(issue.low);
  const double low = interval ? point.stall_us.low : point.stall_us.value;
  const double high = interval ? point.stall_us.high : point.stall_us.value;
  if (low > point.tolerance_us) {
    point.back_pressure = BackPressure::held_back;
  } else if (high <= point.tolerance_us) {
    point.back_pressure = BackPressure::free_runs;
  }
}

}  // namespace

std::string_view name_of(BackPressure back_pressure) {
  constexpr std::array<std::string_view, 3> names{"free_runs", "held_back", "not_decided"};
  return names[static_cast<std::size_t>(back_pressure)];
}

MeasuredPoint measure_point(const NodeOfRepetition& node, const BurstExperiment& experiment, int repetitions,
                            const Progress& progress) {
  if (repetitions < 1) {
    throw InputError(fmt::format("repetitions {}: at least 1", repetitions));
  }
  Node& first = node(0);
  const NodeDescription description = first.describe();
  const PointPlan plan = plan_of(description, experiment);
  check_experiment(plan.point, description);
  const std::optional<std::vector<BurstExperiment>> recorded = first.recorded_experiments();
  Measured measured = recorded ? replay(first, *recorded, plan) : run_all(node, plan, repetitions, progress);

  MeasuredPoint point;
  point.experiment = measured.point.front().experiment;
  std::map<int, Samples> by_index;
  for (const BurstSample& sample : measured.point) {
    by_index[sample.burst_index].push_back(sample);
  }
  std::transform(by_index.begin(), by_index.end(), std::back_inserter(point.bursts),
                 [](const auto& burst) { return burst_of(burst.second); });
  point.alone_issue_us = value_of(measured.alone, [](const BurstSample& sample) { return sample.issue_us; });
  point.alone_complete_us = value_of(measured.alone, [](const BurstSample& sample) { return sample.visible_us; });
  point.floor_producers = plan.floor.producers;
  point.floor_us = value_of(measured.floor, [](const BurstSample& sample) { return sample.issue_us; });
  judge(point);
  point.samples = std::move(measured.in_order);
  return point;
}

}  // namespace xstage
