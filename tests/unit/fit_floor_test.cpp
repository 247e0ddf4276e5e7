#include "calibrate/fit_floor.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/calibrate_synthetic.hpp"

namespace xstage::calibrate::fit_floor_test {
namespace {

using test::Noise;
using test::Truth;

const Rates true_rates{372500, 50000};

FloorFit fit_floor_of(const SamplesFile& file) { return fit_floor(plain_rows(file), true_rates); }

SamplesFile isolated_file(int producers, const std::vector<std::int64_t>& kibibytes, Noise noise = Noise()) {
  std::vector<BurstExperiment> experiments;
  for (const std::int64_t size : kibibytes) {
    experiments.push_back(test::isolated_experiment(producers, size * 1024));
  }
  return test::synthetic_file(Truth(), experiments, noise);
}

const std::vector<std::int64_t> sizes{1, 2, 4, 8, 12, 16, 20, 24, 32, 48, 64, 128};

void expect_true_floor(const FloorFit& fit, double tolerance) {
  for (const IssueFloorPoint& point : fit.table) {
    const double truth = Truth().floor_us(point.bytes_per_producer);
    EXPECT_NEAR(point.issue_us, truth, tolerance * truth) << point.bytes_per_producer << " bytes";
  }
}

TEST(FitFloor, FewProducersGiveTheWholeTableWithItsSlopeBreak) {
  const FloorFit fit = fit_floor_of(isolated_file(4, sizes));
  ASSERT_EQ(fit.table.size(), sizes.size());
  expect_true_floor(fit, 1e-9);
  const double slope_below = (fit.table[5].issue_us - fit.table[3].issue_us) / (8 * 1024);  // 8 to 16 KiB
  const double slope_above = (fit.table[11].issue_us - fit.table[10].issue_us) / (64 * 1024);
  EXPECT_GT(slope_above / slope_below, 2.5);  // 20 and 7.5 ns per KiB
}

TEST(FitFloor, AlignedBurstsOfAllProducersCountOnlyBelowTheKnee) {
  const FloorFit fit = fit_floor_of(isolated_file(132, sizes));
  ASSERT_FALSE(fit.table.empty());
  expect_true_floor(fit, 1e-9);
  EXPECT_LT(fit.table.back().bytes_per_producer, 24 * 1024);  // the knee of Truth
  EXPECT_GE(fit.table.back().bytes_per_producer, 16 * 1024);
}

TEST(FitFloor, AlignedPlateauBeyondTheKneeIsNeverRead) {
  std::vector<BurstExperiment> experiments = test::drain_and_floor_experiments();
  BurstExperiment aligned = test::zero_gap_experiment(132, 64 * 1024);
  aligned.regime = Regime::aligned;
  aligned.gap_us = 100;
  const FloorFit without = fit_floor_of(test::synthetic_file(Truth(), experiments));
  experiments.push_back(aligned);
  const FloorFit with = fit_floor_of(test::synthetic_file(Truth(), experiments));
  EXPECT_EQ(issue_floor_us(with.table, 64 * 1024), issue_floor_us(without.table, 64 * 1024));
}

TEST(FitFloor, FreeRunningPlateauIsReadFromGapsClearOfTheCorner) {
  BurstExperiment plateau = test::zero_gap_experiment(132, 64 * 1024);  // V/R = 23.2 us
  plateau.gap_us = 40;
  BurstExperiment corner = plateau;
  corner.bytes = 32 * 1024;  // V/R = 11.6 us
  corner.gap_us = 12;
  const FloorFit fit = fit_floor_of(test::synthetic_file(Truth(), {plateau, corner}));
  ASSERT_EQ(fit.table.size(), 1U);
  EXPECT_EQ(fit.table.front().bytes_per_producer, 64 * 1024);
  EXPECT_NEAR(fit.table.front().issue_us, Truth().floor_us(64 * 1024), 1e-12);
}

TEST(FitFloor, NeverDecreasesAndStaysCloseUnderNoise) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SamplesFile file = isolated_file(4, sizes, Noise(0.03, seed));
    const SamplesFile more = isolated_file(132, {1, 2, 4, 8, 12, 16, 20, 24, 32}, Noise(0.03, seed + 100));
    file.samples.insert(file.samples.end(), more.samples.begin(), more.samples.end());
    const FloorFit fit = fit_floor_of(file);
    for (std::size_t i = 1; i < fit.table.size(); ++i) {
      EXPECT_GE(fit.table[i].issue_us, fit.table[i - 1].issue_us) << "seed " << seed;
    }
    expect_true_floor(fit, 0.12);  // four deviations
  }
}

TEST(FitFloor, ASpikeAtOneSizeDoesNotBendTheTable) {
  SamplesFile file = isolated_file(4, sizes);
  file.samples[6].issue_us *= 5;  // 20 KiB
  const FloorFit fit = fit_floor_of(file);
  const double truth = Truth().floor_us(20 * 1024);
  EXPECT_LT(issue_floor_us(fit.table, 20 * 1024), 1.5 * truth + 0.35);
  EXPECT_NEAR(issue_floor_us(fit.table, 128 * 1024), Truth().floor_us(128 * 1024), 1e-9);
  EXPECT_NEAR(issue_floor_us(fit.table, 16 * 1024), Truth().floor_us(16 * 1024), 1e-9);
}

TEST(FitFloor, SaysWhyThereIsNoTable) {
  const FloorFit fit = fit_floor_of(isolated_file(132, {64, 96, 128}));
  EXPECT_TRUE(fit.table.empty());
  EXPECT_THAT(fit.reason, testing::HasSubstr("no issue time below the knee"));
}

// probe1: 0.214 us at 16 KiB and 1.144 us at 64 KiB with 8 producers; about 20 ns per KiB beyond 32 KiB.
TEST(FitFloor, ReadsTheFirstMeasurement) {
  const SamplesFile file = test::first_measurement();
  const FloorFit fit = fit_floor_of(file);
  EXPECT_NEAR(issue_floor_us(fit.table, 16 * 1024), 0.214, 0.001);
  EXPECT_NEAR(issue_floor_us(fit.table, 64 * 1024), 1.144, 0.001);
  EXPECT_NEAR(issue_floor_us(fit.table, 256 * 1024), 5.226, 0.001);
}

}  // namespace
}  // namespace xstage::calibrate::fit_floor_test
