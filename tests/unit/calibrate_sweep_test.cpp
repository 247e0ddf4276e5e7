#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "unit/calibrate_synthetic.hpp"
#include "xstage/calibrate.hpp"
#include "xstage/error.hpp"

namespace xstage::calibrate_sweep_test {
namespace {

using Experiments = std::vector<BurstExperiment>;

std::ptrdiff_t count(const Experiments& experiments, const std::function<bool(const BurstExperiment&)>& holds) {
  return std::count_if(experiments.begin(), experiments.end(), holds);
}

TEST(CalibrationSweep, StaysWithinItsBudget) {
  const NodeDescription node = test::synthetic_node();
  // About 10 ms an experiment on two H200: 4 seconds of the 60 that a calibration may take.
  EXPECT_LE(calibration_sweep(node, false).size(), 400U);
  EXPECT_GE(calibration_sweep(node, false).size(), 250U);
  EXPECT_LE(calibration_sweep(node, true).size(), 100U);
}

TEST(CalibrationSweep, EveryExperimentObeysTheRulesOnNodesOfAnySize) {
  for (const int multiprocessors : {1, 2, 3, 8, 20, 132, 148}) {
    for (const int devices : {2, 3, 8}) {
      const NodeDescription node = test::synthetic_node(devices, multiprocessors);
      for (const bool quick : {false, true}) {
        const Experiments experiments = calibration_sweep(node, quick);
        for (const BurstExperiment& experiment : experiments) {
          EXPECT_NO_THROW(check_experiment(experiment, node));
        }
      }
    }
  }
}

TEST(CalibrationSweep, MeasuresNothingTwiceAndKeepsHeldOutRowsOutOfTheFit) {
  Experiments experiments = calibration_sweep(test::synthetic_node(3), false);
  for (BurstExperiment& experiment : experiments) {
    experiment.held_out = false;
  }
  for (std::size_t i = 0; i < experiments.size(); ++i) {
    const auto rest = experiments.begin() + static_cast<std::ptrdiff_t>(i) + 1;
    EXPECT_EQ(std::find(rest, experiments.end(), experiments[i]), experiments.end()) << "experiment " << i;
  }
}

TEST(CalibrationSweep, HeldOutRowsCoverBothRegimesAndTheCorner) {
  for (const bool quick : {false, true}) {
    std::map<Regime, std::set<std::int64_t>> sizes;
    const double drain_us_per_byte = 132 / 372e3;  // V/R of the default estimate, per byte of B
    int around_corner = 0;
    for (const BurstExperiment& e : calibration_sweep(test::synthetic_node(), quick)) {
      if (e.held_out && e.mode == BurstMode::periodic) {
        sizes[e.regime].insert(e.bytes);
        const double share = e.gap_us / (static_cast<double>(e.bytes) * drain_us_per_byte);
        around_corner += share > 0.85 && share < 1.15 ? 1 : 0;
      }
    }
    EXPECT_GE(sizes[Regime::free_running].size(), quick ? 2U : 4U);
    EXPECT_GE(sizes[Regime::aligned].size(), quick ? 1U : 4U);
    EXPECT_GE(around_corner, quick ? 6 : 12);
  }
}

TEST(CalibrationSweep, HeldOutIsolatedSizesAreNotInTheFit) {
  const Experiments experiments = calibration_sweep(test::synthetic_node(), false);
  std::set<std::pair<int, std::int64_t>> fitted;
  for (const BurstExperiment& e : experiments) {
    if (e.mode == BurstMode::isolated && !e.held_out) {
      fitted.insert({e.producers, e.bytes});
    }
  }
  int held_out = 0;
  for (const BurstExperiment& e : experiments) {
    if (e.mode == BurstMode::isolated && e.held_out) {
      ++held_out;
      EXPECT_FALSE(fitted.contains({e.producers, e.bytes})) << e.producers << " x " << e.bytes;
    }
  }
  EXPECT_GE(held_out, 8);
}

TEST(CalibrationSweep, BulkOnlyFromComputeCapability90) {
  NodeDescription node = test::synthetic_node();
  const auto is_bulk = [](const BurstExperiment& e) { return e.path == StorePath::bulk; };
  EXPECT_GT(count(calibration_sweep(node, false), is_bulk), 0);
  node.devices.back().compute_capability = 80;
  EXPECT_EQ(count(calibration_sweep(node, false), is_bulk), 0);
}

TEST(CalibrationSweep, QuickMeasures16ByteStoresOnly) {
  const auto is_other = [](const BurstExperiment& e) { return e.path != StorePath::store16; };
  EXPECT_EQ(count(calibration_sweep(test::synthetic_node(), true), is_other), 0);
}

TEST(CalibrationSweep, MoreThanTwoDevicesAddEveryOrderedPairAndSeveralDestinations) {
  std::set<std::pair<int, int>> pairs;
  const Experiments experiments = calibration_sweep(test::synthetic_node(4), false);
  for (const BurstExperiment& e : experiments) {
    pairs.insert({e.source, e.destinations.front()});
  }
  EXPECT_EQ(pairs.size(), 12U);  // 4 x 3
  EXPECT_GT(count(experiments, [](const BurstExperiment& e) { return e.destinations.size() == 3; }), 0);
  const Experiments two_devices = calibration_sweep(test::synthetic_node(2), false);
  EXPECT_EQ(count(two_devices, [](const BurstExperiment& e) { return e.source != 0; }), 0);
}

TEST(CalibrationSweep, UsesTheFewestMultiprocessorsOfAnyDevice) {
  NodeDescription node = test::synthetic_node();
  node.devices.back().multiprocessors = 100;
  const Experiments experiments = calibration_sweep(node, false);
  EXPECT_EQ(count(experiments, [](const BurstExperiment& e) { return e.producers > 100; }), 0);
  EXPECT_GT(count(experiments, [](const BurstExperiment& e) { return e.producers == 100; }), 0);
}

TEST(CalibrationSweep, PlacesGapsByTheDescribedLinks) {
  NodeDescription node = test::synthetic_node();
  const auto longest_gap = [](const Experiments& experiments) {
    return std::max_element(experiments.begin(), experiments.end(),
                            [](const auto& a, const auto& b) { return a.gap_us < b.gap_us; })
        ->gap_us;
  };
  const double of_18_links = longest_gap(calibration_sweep(node, false));
  node.links = "9 NVLink, 26.56 GB/s each";
  EXPECT_NEAR(longest_gap(calibration_sweep(node, false)), 2 * of_18_links, 1e-6 * of_18_links);
  node.links = "0x12 NVLink, 0x1A GB/s each";  // numbers are decimal
  EXPECT_NEAR(longest_gap(calibration_sweep(node, false)), of_18_links, 0.01 * of_18_links);
  node.links = "something else";
  EXPECT_NEAR(longest_gap(calibration_sweep(node, false)), of_18_links, 0.01 * of_18_links);
}

TEST(CalibrationSweep, RefusesASingleDevice) {
  EXPECT_THROW(
      {
        try {
          (void)calibration_sweep(test::synthetic_node(1), false);
        } catch (const InputError& error) {
          EXPECT_THAT(error.what(), testing::HasSubstr("devices 1"));
          throw;
        }
      },
      InputError);
}

TEST(CalibrationSweep, HoldsControlsOfEachKind) {
  const Experiments experiments = calibration_sweep(test::synthetic_node(), false);
  EXPECT_GE(count(experiments, [](const BurstExperiment& e) { return e.target == Target::local; }), 3);
  EXPECT_GE(count(experiments, [](const BurstExperiment& e) { return e.direction == Direction::both_ways; }), 1);
  EXPECT_GE(count(experiments, [](const BurstExperiment& e) { return e.filler == GapFiller::memory_reads; }), 1);
  EXPECT_GE(count(experiments, [](const BurstExperiment& e) { return e.filler == GapFiller::tensor_cores; }), 1);
  EXPECT_GE(count(experiments, [](const BurstExperiment& e) { return e.mode == BurstMode::train && e.held_out; }), 6);
}

}  // namespace
}  // namespace xstage::calibrate_sweep_test
