#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "unit/calibrate_synthetic.hpp"
#include "xstage/calibrate.hpp"
#include "xstage/error.hpp"

namespace xstage::fit_test {
namespace {

using test::Noise;
using test::Truth;
using testing::HasSubstr;

const PathProfile& store16_of(const Platform& platform) { return path_profile(platform, StorePath::store16); }

TEST(Fit, FindsTheTruthOfAFullSweepOnEveryPath) {
  const Platform platform = fit(test::synthetic_calibration(Truth(), false));
  ASSERT_EQ(platform.paths.size(), 4U);
  for (const PathProfile& profile : platform.paths) {
    EXPECT_NEAR(profile.drain_gb_per_s.value.value(), 372.5, 1e-6);
    EXPECT_NEAR(profile.producer_drain_gb_per_s.value.value(), 50, 1e-6);
    EXPECT_NEAR(profile.goodness.drain_worst_error, 0, 1e-9);
    EXPECT_NEAR(profile.goodness.floor_worst_error, 0, 1e-9);
    for (const IssueFloorPoint& point : profile.issue_floor) {
      EXPECT_NEAR(point.issue_us, Truth().floor_us(point.bytes_per_producer), 1e-9);
    }
    const CapacityPoint& all = profile.capacity.back();
    EXPECT_EQ(all.producers, 132);
    EXPECT_NEAR(all.capacity_bytes.value.value(), Truth().capacity(132), 1);
  }
}

TEST(Fit, FindsTheTruthOfANoisyQuickSweep) {
  const Platform platform = fit(test::synthetic_calibration(Truth(), true, Noise(0.01, 11)));
  ASSERT_EQ(platform.paths.size(), 1U);
  const PathProfile& profile = store16_of(platform);
  EXPECT_NEAR(profile.drain_gb_per_s.value.value(), 372.5, 0.01 * 372.5);
  EXPECT_NEAR(profile.producer_drain_gb_per_s.value.value(), 50, 0.02 * 50);
  EXPECT_NEAR(profile.capacity.back().capacity_bytes.value.value(), Truth().capacity(132),
              0.05 * Truth().capacity(132));
  EXPECT_GT(profile.goodness.drain_worst_error, 0.001);
  EXPECT_LT(profile.goodness.drain_worst_error, 0.04);
}

TEST(Fit, IsDeterministic) {
  const SamplesFile file = test::synthetic_calibration(Truth(), false, Noise(0.02, 5));
  EXPECT_EQ(format_platform(fit(file)), format_platform(fit(file)));
}

TEST(Fit, DoesNotDependOnTheOrderOfSamples) {
  SamplesFile file = test::synthetic_calibration(Truth(), true);
  const std::string text = format_platform(fit(file));
  std::reverse(file.samples.begin(), file.samples.end());
  EXPECT_EQ(format_platform(fit(file)), text);
}

/// Rows that describe something else than the plain case, disturbed beyond recognition, change nothing.
TEST(Fit, IgnoresHeldOutAndSpecialRows) {
  SamplesFile file = test::synthetic_calibration(Truth(), false);
  const std::string text = format_platform(fit(file));
  int disturbed = 0;
  for (BurstSample& sample : file.samples) {
    const BurstExperiment& e = sample.experiment;
    if (e.held_out || e.target == Target::local || e.direction == Direction::both_ways || e.filler != GapFiller::spin) {
      sample.issue_us *= 7;
      sample.period_us *= 7;
      sample.window_us *= 7;
      sample.link_bytes *= 7;
      ++disturbed;
    }
  }
  EXPECT_GT(disturbed, 100);
  EXPECT_EQ(format_platform(fit(file)), text);
}

TEST(Fit, UsesOneThreadCountOfAPath) {
  SamplesFile file = test::synthetic_calibration(Truth(), true);
  const std::string text = format_platform(fit(file));
  BurstSample other = file.samples.front();
  other.experiment.threads = 512;
  other.window_us *= 9;
  other.link_bytes = not_measured;
  file.samples.push_back(other);
  EXPECT_EQ(format_platform(fit(file)), text);
  EXPECT_EQ(store16_of(fit(file)).threads, 256);
}

TEST(Fit, RefusesSamplesWithoutAUsableRow) {
  const SamplesFile held_out =
      test::only(test::synthetic_calibration(Truth(), true), [](const BurstExperiment& e) { return e.held_out; });
  ASSERT_FALSE(held_out.samples.empty());
  EXPECT_THROW((void)fit(held_out), InputError);
  EXPECT_THROW((void)fit(SamplesFile{}), InputError);
}

TEST(Fit, WithoutADrainRateEverythingThatNeedsItIsNullWithItsReason) {
  const Platform platform = fit(test::only(test::synthetic_calibration(Truth(), true),
                                           [](const BurstExperiment& e) { return e.mode == BurstMode::isolated; }));
  const PathProfile& profile = store16_of(platform);
  EXPECT_FALSE(profile.drain_gb_per_s.value);
  EXPECT_THAT(profile.drain_gb_per_s.reason, HasSubstr("no free-running periodic rows"));
  EXPECT_TRUE(profile.issue_floor.empty());
  EXPECT_THAT(profile.issue_floor_reason, HasSubstr("R is unknown"));
  ASSERT_FALSE(profile.capacity.empty());
  for (const CapacityPoint& point : profile.capacity) {
    EXPECT_FALSE(point.capacity_bytes.value);
    EXPECT_EQ(point.capacity_bytes.reason, "R is unknown");
  }
  EXPECT_TRUE(std::isnan(profile.goodness.drain_median_error));
}

TEST(Fit, WithoutAFloorThereIsNoCapacity) {
  const Platform platform = fit(test::only(test::synthetic_calibration(Truth(), true), [](const BurstExperiment& e) {
    const bool beyond_knee = e.mode == BurstMode::isolated && e.producers == 132 && e.bytes >= 32 * 1024;
    return beyond_knee || (e.mode == BurstMode::periodic && e.gap_us == 0);
  }));
  const PathProfile& profile = store16_of(platform);
  EXPECT_TRUE(profile.drain_gb_per_s.value);
  EXPECT_THAT(profile.issue_floor_reason, HasSubstr("no issue time below the knee"));
  ASSERT_EQ(profile.capacity.size(), 1U);
  EXPECT_EQ(profile.capacity.front().capacity_bytes.reason, "T_iss0 is unknown");
}

TEST(Fit, ReportsTheLinkCounterRatioOrWhyNot) {
  SamplesFile file = test::synthetic_calibration(Truth(), true);
  for (BurstSample& sample : file.samples) {
    sample.link_bytes = 1.002 * sample.stored_bytes;
  }
  EXPECT_NEAR(fit(file).link_counter_ratio.value.value(), 1.002, 1e-12);
  for (BurstSample& sample : file.samples) {
    sample.link_bytes = not_measured;
  }
  EXPECT_FALSE(fit(file).link_counter_ratio.value);
  EXPECT_THAT(fit(file).link_counter_ratio.reason, HasSubstr("no row has link counter bytes"));
}

TEST(Fit, GivesEachPairOfMoreThanTwoDevicesItsOwnDrainRate) {
  const NodeDescription node = test::synthetic_node(3);
  SamplesFile file = test::synthetic_file(Truth(), calibration_sweep(node, true));
  file.node = node;
  for (BurstSample& sample : file.samples) {
    if (sample.experiment.source == 2 && sample.experiment.destinations.front() == 1) {
      sample.window_us *= 2;
    }
  }
  const Platform platform = fit(file);
  ASSERT_EQ(platform.pairs.size(), 6U);
  for (const PairDrain& pair : platform.pairs) {
    const bool slow = pair.source == 2 && pair.destination == 1;
    EXPECT_NEAR(pair.drain_gb_per_s.value.value(), slow ? 372.5 / 2 : 372.5, 1e-6)
        << pair.source << " to " << pair.destination;
  }
  EXPECT_NEAR(store16_of(platform).drain_gb_per_s.value.value(), 372.5, 1e-6);
  EXPECT_EQ(parse_platform(format_platform(platform), "test").pairs.size(), 6U);
}

TEST(Fit, TwoDevicesHaveNoMatrix) { EXPECT_TRUE(fit(test::synthetic_calibration(Truth(), true)).pairs.empty()); }

TEST(Fit, KeepsProvenance) {
  const SamplesFile file = test::synthetic_calibration(Truth(), true);
  EXPECT_EQ(fit(file).node, file.node);
}

}  // namespace
}  // namespace xstage::fit_test
