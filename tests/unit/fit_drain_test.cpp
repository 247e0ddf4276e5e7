#include "calibrate/fit_drain.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "unit/calibrate_synthetic.hpp"

namespace xstage::calibrate::fit_drain_test {
namespace {

using test::Noise;
using test::Truth;

DrainFit fit_drain_of(const SamplesFile& file) { return fit_drain(plain_rows(file)); }

SamplesFile zero_gap_file(std::vector<int> counts, Noise noise = Noise()) {
  std::vector<BurstExperiment> experiments;
  for (const int producers : counts) {
    for (const std::int64_t kibibytes : {8, 32, 128}) {
      experiments.push_back(test::zero_gap_experiment(producers, kibibytes * 1024));
    }
  }
  return test::synthetic_file(Truth(), experiments, noise);
}

const std::vector<int> all_counts{1, 2, 4, 8, 16, 33, 66, 132};

TEST(FitDrain, RecoversBothRatesExactlyWithoutNoise) {
  const DrainFit fit = fit_drain_of(zero_gap_file(all_counts));
  ASSERT_TRUE(fit.drain_gb_per_s.value);
  EXPECT_NEAR(*fit.drain_gb_per_s.value, 372.5, 1e-6);
  ASSERT_TRUE(fit.producer_drain_gb_per_s.value);
  EXPECT_NEAR(*fit.producer_drain_gb_per_s.value, 50, 1e-6);
}

TEST(FitDrain, RecoversWithinOnePercentUnderTwoPercentNoise) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const DrainFit fit = fit_drain_of(zero_gap_file(all_counts, Noise(0.02, seed)));
    ASSERT_TRUE(fit.drain_gb_per_s.value) << "seed " << seed;
    EXPECT_NEAR(*fit.drain_gb_per_s.value, 372.5, 0.03 * 372.5) << "seed " << seed;
    EXPECT_NEAR(*fit.producer_drain_gb_per_s.value, 50, 0.03 * 50) << "seed " << seed;
  }
}

TEST(FitDrain, IntervalHoldsTheTruthInMostNoisyCalibrations) {
  int covered = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const Estimate drain = fit_drain_of(zero_gap_file(all_counts, Noise(0.004, seed))).drain_gb_per_s;
    EXPECT_LT(drain.high - drain.low, 0.02 * 372.5);
    covered += drain.low <= 372.5 && 372.5 <= drain.high ? 1 : 0;
  }
  EXPECT_GE(covered, 36);
}

TEST(FitDrain, ASingleOutlierDoesNotMoveR) {
  for (const double disturbance : {0.4, 3.0}) {
    SamplesFile file = zero_gap_file(all_counts);
    for (std::size_t row = 0; row < file.samples.size(); ++row) {
      SamplesFile disturbed = file;
      disturbed.samples[row].period_us *= disturbance;
      disturbed.samples[row].window_us *= disturbance;
      const DrainFit fit = fit_drain_of(disturbed);
      ASSERT_TRUE(fit.drain_gb_per_s.value) << "row " << row;
      EXPECT_NEAR(*fit.drain_gb_per_s.value, 372.5, 1) << "row " << row << " times " << disturbance;
      ASSERT_TRUE(fit.producer_drain_gb_per_s.value) << "row " << row;
      EXPECT_NEAR(*fit.producer_drain_gb_per_s.value, 50, 0.5) << "row " << row << " times " << disturbance;
    }
  }
}

TEST(FitDrain, TakesTheWindowBeforeThePeriod) {
  SamplesFile file = zero_gap_file(all_counts);
  for (BurstSample& sample : file.samples) {
    sample.period_us /= 1.5;  // per-producer windows overstate the rate (arbitration between SMs is unfair)
  }
  EXPECT_NEAR(*fit_drain_of(file).drain_gb_per_s.value, 372.5, 1e-6);
  for (BurstSample& sample : file.samples) {
    sample.window_us = not_measured;
  }
  EXPECT_NEAR(*fit_drain_of(file).drain_gb_per_s.value, 1.5 * 372.5, 1e-6);
}

TEST(FitDrain, FewProducersShowNoSaturation) {
  const DrainFit fit = fit_drain_of(zero_gap_file({1, 2, 4}));
  EXPECT_FALSE(fit.drain_gb_per_s.value);
  EXPECT_THAT(fit.drain_gb_per_s.reason, testing::HasSubstr("0 drain-bound points, at least 3 needed"));
  ASSERT_TRUE(fit.producer_drain_gb_per_s.value);
  EXPECT_NEAR(*fit.producer_drain_gb_per_s.value, 50, 1e-6);
}

TEST(FitDrain, ManyProducersShowNoProducerRate) {
  const DrainFit fit = fit_drain_of(zero_gap_file({16, 33, 66, 132}));
  EXPECT_NEAR(*fit.drain_gb_per_s.value, 372.5, 1e-6);
  EXPECT_FALSE(fit.producer_drain_gb_per_s.value);
  EXPECT_THAT(fit.producer_drain_gb_per_s.reason, testing::HasSubstr("the lowest producer count, 16"));
}

TEST(FitDrain, OneProducerCountTellsNothing) {
  const DrainFit fit = fit_drain_of(zero_gap_file({132}));
  EXPECT_FALSE(fit.drain_gb_per_s.value);
  EXPECT_FALSE(fit.producer_drain_gb_per_s.value);
  EXPECT_THAT(fit.producer_drain_gb_per_s.reason, testing::HasSubstr("1 producer count(s)"));
}

TEST(FitDrain, NeedsRowsWithoutAGap) {
  SamplesFile file = zero_gap_file(all_counts);
  for (BurstSample& sample : file.samples) {
    sample.experiment.gap_us = 3;
  }
  EXPECT_THAT(fit_drain_of(file).drain_gb_per_s.reason,
              testing::HasSubstr("no free-running periodic rows without a gap"));
}

TEST(FitDrain, OneValueHasNoInterval) {
  const Estimate one = median_estimate({372.5});
  ASSERT_TRUE(one.value);
  EXPECT_EQ(*one.value, 372.5);
  EXPECT_TRUE(std::isnan(one.low) && std::isnan(one.high)) << one.low << " to " << one.high;
  const Estimate two = median_estimate({372, 373});
  EXPECT_LE(two.low, *two.value);
  EXPECT_GE(two.high, *two.value);
}

// First measurement on two H200: 372 to 373 GB/s over one common window at K = 132, 357 at K = 16; about 50 GB/s a
// producer.
TEST(FitDrain, ReadsTheFirstMeasurement) {
  const SamplesFile file = test::first_measurement();
  const DrainFit fit = fit_drain_of(file);
  ASSERT_TRUE(fit.drain_gb_per_s.value);
  EXPECT_GT(*fit.drain_gb_per_s.value, 369);
  EXPECT_LT(*fit.drain_gb_per_s.value, 374);
  ASSERT_TRUE(fit.producer_drain_gb_per_s.value);
  EXPECT_NEAR(*fit.producer_drain_gb_per_s.value, 50, 1.5);
}

}  // namespace
}  // namespace xstage::calibrate::fit_drain_test
