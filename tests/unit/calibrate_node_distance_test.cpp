/// How far a simulated node is from a measured one: what counts where.

#include "calibrate/node_distance.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "calibrate/parallel_sweep.hpp"
#include "xstage/calibrate.hpp"
#include "xstage/error.hpp"
#include "xstage/simulated_node.hpp"

namespace xstage::calibrate::calibrate_node_distance_test {
namespace {

BurstSample sample_of(std::int64_t bytes, bool held_out, double issue_us, double slowest_us) {
  BurstSample sample;
  sample.experiment.mode = BurstMode::isolated;
  sample.experiment.regime = Regime::aligned;
  sample.experiment.producers = 4;
  sample.experiment.bytes = bytes;
  sample.experiment.held_out = held_out;
  sample.issue_us = issue_us;
  sample.issue_slowest_us = slowest_us;
  return sample;
}

DistanceSummary find(const std::vector<DistanceSummary>& all, const std::string& group, const std::string& quantity) {
  const auto found = std::find_if(all.begin(), all.end(), [&](const DistanceSummary& distance) {
    return distance.group == group && distance.quantity == quantity;
  });
  if (found == all.end()) {
    ADD_FAILURE() << group << ", " << quantity << " is missing";
    return {};
  }
  return *found;
}

TEST(NodeDistance, FittedAndHeldOutMeanAndSlowestStandApart) {
  SamplesFile measured;
  measured.samples = {sample_of(1024, false, 1, 2), sample_of(2048, true, 1, 2)};
  SamplesFile simulated;
  simulated.samples = {sample_of(1024, false, 1.1, 2), sample_of(2048, true, 1.2, 3)};
  const std::vector<DistanceSummary> all = distances(measured, simulated);
  for (const std::string group : {"all", "16-byte stores, isolated, aligned"}) {
    const DistanceSummary mean = find(all, group, "mean issue time");
    EXPECT_EQ(mean.fitted.samples, 1);
    EXPECT_NEAR(mean.fitted.median, 0.1, 1e-12);
    EXPECT_NEAR(mean.held_out.median, 0.2, 1e-12);
    const DistanceSummary slowest = find(all, group, "slowest producer's issue time");
    EXPECT_NEAR(slowest.fitted.worst, 0, 1e-12);
    EXPECT_NEAR(slowest.held_out.worst, 0.5, 1e-12);
  }
}

TEST(NodeDistance, OnlyRemoteSamplesThatBothHaveCount) {
  SamplesFile measured;
  measured.samples = {sample_of(1024, true, 1, 2), sample_of(2048, true, 1, 2), sample_of(4096, true, 1, 2)};
  measured.samples[2].experiment.target = Target::local;
  SamplesFile simulated = measured;
  simulated.samples.erase(simulated.samples.begin());
  EXPECT_EQ(find(distances(measured, simulated), "all", "mean issue time").held_out.samples, 1);
  EXPECT_TRUE(distances(measured, {}).empty());
}

TEST(ParallelSweep, HasTheRemoteSamplesOfASweepInItsOrder) {
  SimulatedHardware small = simulated_preset("h200x2");
  small.multiprocessors = {{2, 2}};
  const auto make_node = [&] { return make_simulated_node(small); };
  SamplesFile one_by_one = run_sweep(*make_node(), true);
  std::erase_if(one_by_one.samples,
                [](const BurstSample& sample) { return sample.experiment.target != Target::remote; });
  EXPECT_EQ(format_samples(run_remote_sweep_in_parallel(make_node, true)), format_samples(one_by_one));
}

TEST(ParallelSweep, ThrowsWhatAnExperimentThrows) {
  SimulatedHardware alone = simulated_preset("h200x2");
  alone.devices = 1;
  EXPECT_THROW(static_cast<void>(run_remote_sweep_in_parallel([&] { return make_simulated_node(alone); }, true)),
               InputError);
}

}  // namespace
}  // namespace xstage::calibrate::calibrate_node_distance_test
