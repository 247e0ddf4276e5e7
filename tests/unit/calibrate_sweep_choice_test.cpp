/// Calibrations of a part: which experiments a choice leaves and adds, and what it refuses.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "unit/calibrate_synthetic.hpp"
#include "xstage/calibrate.hpp"
#include "xstage/error.hpp"
#include "xstage/recorded_node.hpp"

namespace xstage::calibrate_sweep_choice_test {
namespace {

using testing::HasSubstr;

std::vector<BurstExperiment> sweep(const SweepChoice& choice, bool quick = false, int devices = 2) {
  return calibration_sweep(test::synthetic_node(devices), quick, choice);
}

std::string refusal(const SweepChoice& choice, bool quick = false) {
  try {
    static_cast<void>(sweep(choice, quick));
  } catch (const InputError& error) {
    return error.what();
  }
  return "not refused";
}

TEST(SweepChoice, WithoutAChoiceTheSweepIsTheDefault) {
  EXPECT_EQ(sweep({}), calibration_sweep(test::synthetic_node(), false));
  EXPECT_EQ(sweep({}, true), calibration_sweep(test::synthetic_node(), true));
}

TEST(SweepChoice, APathNarrowsTheDefault) {
  SweepChoice choice;
  choice.paths = {StorePath::bulk};
  std::vector<BurstExperiment> expected = sweep({});
  std::erase_if(expected, [](const BurstExperiment& experiment) { return experiment.path != StorePath::bulk; });
  EXPECT_FALSE(expected.empty());
  EXPECT_EQ(sweep(choice), expected);
}

TEST(SweepChoice, APairIsTheOnlyOne) {
  SweepChoice choice;
  choice.source = 2;
  choice.destination = 1;
  const std::vector<BurstExperiment> chosen = sweep(choice, true, 4);
  EXPECT_EQ(chosen.size(), sweep({}, true, 2).size()) << "no other pairs";
  for (const BurstExperiment& experiment : chosen) {
    EXPECT_EQ(experiment.source, 2);
    EXPECT_EQ(experiment.destinations, std::vector<int>{1});
  }
}

TEST(SweepChoice, ListsReplaceWhatTheSweepVaries) {
  SweepChoice choice;
  choice.paths = {StorePath::store16};
  choice.producers = {48, 96};
  choice.bytes = {65536};
  choice.gaps_us = {3, 30};
  choice.regimes = {Regime::aligned};
  std::set<std::pair<int, double>> held_out;
  std::set<int> isolated;
  for (const BurstExperiment& experiment : sweep(choice)) {
    EXPECT_EQ(experiment.path, StorePath::store16);
    if (experiment.held_out) {
      EXPECT_EQ(experiment.regime, Regime::aligned);
      EXPECT_EQ(experiment.bytes, 65536);
      held_out.emplace(experiment.producers, experiment.gap_us);
    } else if (experiment.mode == BurstMode::isolated) {
      isolated.insert(experiment.producers);
    }
  }
  EXPECT_EQ(held_out, (std::set<std::pair<int, double>>{{48, 3}, {48, 30}, {96, 3}, {96, 30}}));
  EXPECT_EQ(isolated, (std::set<int>{4, 48, 96}));
}

/// The point of it: a count whose capacity the default sweep does not find gets one.
TEST(SweepChoice, ACalibrationOfOneCountKnowsItsCapacity) {
  SweepChoice choice;
  choice.paths = {StorePath::store16};
  choice.producers = {48};
  const Platform chosen = fit(test::synthetic_file(test::Truth(), sweep(choice)));
  const OperatingPointOrReason point = operating_point(chosen, StorePath::store16, 48, 65536);
  ASSERT_TRUE(point.usable && point.capacity_known) << (point.reasons.empty() ? "" : point.reasons.front());
  EXPECT_NEAR(point.point.capacity_bytes, test::Truth().capacity(48), 0.1 * test::Truth().capacity(48));
}

TEST(SweepChoice, RefusesWhatTheNodeLacks) {
  SweepChoice producers;
  producers.producers = {48, 133};
  EXPECT_THAT(refusal(producers), HasSubstr("producers 133"));
  SweepChoice bytes;
  bytes.bytes = {4100};
  EXPECT_THAT(refusal(bytes), HasSubstr("bytes 4100: not divisible by 16"));
  SweepChoice gap;
  gap.gaps_us = {2e6};
  EXPECT_THAT(refusal(gap), HasSubstr("gap_us 2000000"));
  SweepChoice device;
  device.destination = 2;
  EXPECT_THAT(refusal(device), HasSubstr("destination 2: the node has 2 devices"));
  SweepChoice twice;
  twice.source = 1;
  twice.destination = 1;
  EXPECT_THAT(refusal(twice), HasSubstr("source 1 and destination 1"));
  SweepChoice path;
  path.paths = {StorePath::store4};
  EXPECT_THAT(refusal(path, true), HasSubstr("path store4"));
}

TEST(SweepChoice, OfARecordedNodeTheChosenRowsAndThoseThatNoFitCanDoWithout) {
  const SamplesFile file = test::synthetic_calibration(test::Truth(), false);
  SweepChoice choice;
  choice.paths = {StorePath::store16};
  choice.producers = {33};
  const SamplesFile chosen = run_sweep(*make_recorded_node(file), false, {}, choice);
  EXPECT_LT(chosen.samples.size(), file.samples.size());
  const Platform platform = fit(chosen);
  EXPECT_EQ(platform.paths.size(), 1U);
  EXPECT_TRUE(operating_point(platform, StorePath::store16, 33, 65536).capacity_known);
  EXPECT_FALSE(operating_point(platform, StorePath::store16, 66, 65536).capacity_known);

  choice.producers = {34};
  try {
    static_cast<void>(run_sweep(*make_recorded_node(file), false, {}, choice));
    FAIL() << "not refused";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("producers 34: not among the recorded ones, 1, 2, 4"));
  }
}

}  // namespace
}  // namespace xstage::calibrate_sweep_choice_test
