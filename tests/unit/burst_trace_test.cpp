// The reduction of producers' logs to samples, on traces whose numbers can be worked out by hand.

#include "node/burst_trace.hpp"

#include <gtest/gtest.h>

#include "node/quantiles.hpp"
#include "xstage/error.hpp"

namespace xstage::burst_trace_test {
namespace {

/// A producer that issues for `issue_us` and pauses for `gap_us`, `bursts` times from `start_us` on.
std::vector<TracedBurst> steady_producer(double start_us, double issue_us, double gap_us, int bursts) {
  std::vector<TracedBurst> trace;
  for (int burst = 0; burst < bursts; ++burst) {
    const double start = start_us + burst * (issue_us + gap_us);
    trace.push_back({start, start + issue_us, start + issue_us + 1});
  }
  return trace;
}

BurstExperiment experiment_of(BurstMode mode, Regime regime, int producers) {
  BurstExperiment experiment;
  experiment.mode = mode;
  experiment.regime = regime;
  experiment.producers = producers;
  experiment.bytes = 1000;
  return experiment;
}

TEST(BurstTrace, SteadyWindowWeighsProducersByTheirRate) {
  // Two producers with periods of 2 and 4 us: in a common window they make 3 bursts in 4 us, so the mean period of the
  // two is 2 * 4/3, not the 3 us that averaging the producers' own periods gives.
  const BurstTrace trace{{steady_producer(0, 1, 1, 400), steady_producer(0, 3, 1, 200)}, 1000};
  const auto samples = summarise(experiment_of(BurstMode::periodic, Regime::free_running, 2), 400, {trace});
  ASSERT_EQ(samples.size(), 1U);
  EXPECT_NEAR(samples[0].period_us, 8.0 / 3, 0.01);
  EXPECT_NEAR(samples[0].issue_us, 5.0 / 3, 0.02);  // two bursts of 1 us for one of 3 us
  EXPECT_NEAR(samples[0].gap_us, 1, 1e-9);
  EXPECT_DOUBLE_EQ(samples[0].issue_slowest_us, 3);
  EXPECT_NEAR(samples[0].stored_bytes / samples[0].window_us, 750, 3);  // 3 bursts of 1000 bytes in 4 us
}

TEST(BurstTrace, SteadyWindowEndsWithTheFirstProducerThatStops) {
  // The second producer goes on alone for another 200 us; nothing of that tail may count.
  const BurstTrace trace{{steady_producer(0, 1, 1, 100), steady_producer(0, 1, 1, 200)}, 1000};
  const auto samples = summarise(experiment_of(BurstMode::periodic, Regime::free_running, 2), 200, {trace});
  EXPECT_LE(samples[0].window_us, 200);
  EXPECT_NEAR(samples[0].period_us, 2, 1e-6);
}

TEST(BurstTrace, FixedWorkCountsTheTail) {
  // 10 bursts each with periods of 2 and 4 us. The slow producer's last issue ends at 9*4 + 3 = 39 us; with a gap of 1
  // us the run lasts 40 us, 4 us a burst: the slow one alone decides.
  const BurstTrace trace{{steady_producer(0, 1, 1, 10), steady_producer(0, 3, 1, 10)}, 1000};
  const auto samples = summarise(experiment_of(BurstMode::fixed_work, Regime::free_running, 2), 10, {trace});
  EXPECT_DOUBLE_EQ(samples[0].period_us, 4);
  EXPECT_DOUBLE_EQ(samples[0].window_us, 39);
  EXPECT_DOUBLE_EQ(samples[0].stored_bytes, 20000);
}

TEST(BurstTrace, AlignedPeriodicDropsTheTransient) {
  // The first quarter of the bursts is twice as slow and must not show.
  std::vector<TracedBurst> producer;
  double now = 0;
  for (int burst = 0; burst < 16; ++burst) {
    const double issue = burst < 4 ? 2.0 : 1.0;
    producer.push_back({now, now + issue, 0});
    now += issue + 3;
  }
  const auto samples = summarise(experiment_of(BurstMode::periodic, Regime::aligned, 1), 16, {{{producer}, 1000}});
  EXPECT_DOUBLE_EQ(samples[0].issue_us, 1);
  EXPECT_DOUBLE_EQ(samples[0].gap_us, 3);
  EXPECT_DOUBLE_EQ(samples[0].period_us, 4);
}

TEST(BurstTrace, IsolatedTakesTheMedianBurstOfTheProducersMean) {
  // Producer means of the five bursts: 1, 1, 1, 1 and 9 (an outlier); slowest of each: 1.5, ..., 9.
  BurstTrace trace;
  trace.producers = {{}, {}};
  for (int burst = 0; burst < 5; ++burst) {
    const double start = burst * 100.0;
    const bool outlier = burst == 2;
    trace.producers[0].push_back({start, start + (outlier ? 9 : 0.5), start + 2});
    trace.producers[1].push_back({start + 0.25, start + 0.25 + (outlier ? 9 : 1.5), start + 3});
  }
  const auto samples = summarise(experiment_of(BurstMode::isolated, Regime::aligned, 2), 1, {trace});
  ASSERT_EQ(samples.size(), 1U);
  EXPECT_DOUBLE_EQ(samples[0].issue_us, 1);
  EXPECT_DOUBLE_EQ(samples[0].issue_slowest_us, 1.5);
  EXPECT_DOUBLE_EQ(samples[0].visible_us, 3);  // first start to last fence
  EXPECT_TRUE(std::isnan(samples[0].period_us));
  EXPECT_EQ(samples[0].burst_index, -1);
}

TEST(BurstTrace, TrainReportsEveryBurstOfTheTrain) {
  // Two trains of three bursts whose issue times are 1, 2, 4; one second between the trains.
  std::vector<TracedBurst> producer;
  double now = 0;
  for (int train = 0; train < 2; ++train) {
    for (const double issue : {1.0, 2.0, 4.0}) {
      producer.push_back({now, now + issue, 0});
      now += issue + 0.5;
    }
    now += 1000;
  }
  BurstExperiment experiment = experiment_of(BurstMode::train, Regime::free_running, 1);
  experiment.bursts = 3;
  const auto samples = summarise(experiment, 3, {{{producer}, 1000}});
  ASSERT_EQ(samples.size(), 3U);
  EXPECT_DOUBLE_EQ(samples[0].issue_us, 1);
  EXPECT_DOUBLE_EQ(samples[1].issue_us, 2);
  EXPECT_DOUBLE_EQ(samples[2].issue_us, 4);
  EXPECT_DOUBLE_EQ(samples[1].gap_us, 0.5);
  EXPECT_DOUBLE_EQ(samples[2].period_us, 2.5);  // start to start
  EXPECT_EQ(samples[2].burst_index, 2);
}

TEST(BurstTrace, MedianTrialWins) {
  const auto trial = [](double gap) { return BurstTrace{{steady_producer(0, 1, gap, 100)}, 1000}; };
  const auto samples =
      summarise(experiment_of(BurstMode::periodic, Regime::free_running, 1), 100, {trial(5), trial(1), trial(2)});
  EXPECT_NEAR(samples[0].period_us, 3, 1e-9);
  EXPECT_EQ(samples[0].trials, 3);
}

TEST(BurstTrace, RefusesWhatItCannotReduce) {
  const BurstExperiment periodic = experiment_of(BurstMode::periodic, Regime::free_running, 1);
  EXPECT_THROW((void)summarise(periodic, 1, {}), InputError);
  EXPECT_THROW((void)summarise(periodic, 1, {BurstTrace{}}), InputError);
  EXPECT_THROW((void)summarise(periodic, 1, {BurstTrace{{steady_producer(0, 1, 1, 1)}, 1000}}), InputError);
}

TEST(BurstTrace, QuantileInterpolates) {
  const std::vector<double> sorted{1, 2, 3, 4, 5};
  EXPECT_DOUBLE_EQ(quantile_of_sorted(sorted, 0), 1);
  EXPECT_DOUBLE_EQ(quantile_of_sorted(sorted, 0.125), 1.5);
  EXPECT_DOUBLE_EQ(quantile_of_sorted(sorted, 1), 5);
  EXPECT_DOUBLE_EQ(median_of({9, 1, 5, 3}), 4);
}

}  // namespace
}  // namespace xstage::burst_trace_test
