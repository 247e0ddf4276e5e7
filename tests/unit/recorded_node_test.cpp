#include "xstage/recorded_node.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/calibrate_synthetic.hpp"
#include "xstage/calibrate.hpp"
#include "xstage/error.hpp"

namespace xstage::recorded_node_test {
namespace {

using testing::HasSubstr;

SamplesFile recording() { return test::synthetic_calibration(test::Truth(), true, test::Noise(0.01, 3)); }

/// Samples compared by their file text: every field, NaN included.
std::string text_of(const std::vector<BurstSample>& samples) {
  SamplesFile file;
  file.node = test::synthetic_node();
  file.samples = samples;
  return format_samples(file);
}

TEST(RecordedNode, ASweepReturnsTheRecordedSamples) {
  const SamplesFile file = recording();
  const SamplesFile replayed = run_sweep(*make_recorded_node(file), false);
  EXPECT_EQ(text_of(replayed.samples), text_of(file.samples));
}

TEST(RecordedNode, ARoundTripThroughTheFileKeepsTheFit) {
  const SamplesFile file = recording();
  const SamplesFile replayed = run_sweep(*make_recorded_node(parse_samples(format_samples(file), "test")), false);
  Platform direct = fit(file);
  direct.node.kind = "recorded";
  EXPECT_EQ(format_platform(fit(replayed)), format_platform(direct));
}

TEST(RecordedNode, DescribesTheRecordedMachineAsRecorded) {
  NodeDescription expected = test::synthetic_node();
  expected.kind = "recorded";
  EXPECT_EQ(make_recorded_node(recording())->describe(), expected);
}

TEST(RecordedNode, ReturnsEveryBurstOfATrain) {
  const SamplesFile file = recording();
  const std::unique_ptr<Node> node = make_recorded_node(file);
  const std::vector<BurstExperiment> experiments = node->recorded_experiments().value();
  for (const BurstExperiment& experiment : experiments) {
    const std::size_t rows = node->run(experiment).size();
    EXPECT_EQ(rows, experiment.mode == BurstMode::train ? static_cast<std::size_t>(experiment.bursts) : 1U);
  }
}

TEST(RecordedNode, GathersRowsOfOneExperimentThatTheFileScatters) {
  SamplesFile file = recording();
  file.samples.push_back(file.samples.front());
  const std::unique_ptr<Node> node = make_recorded_node(file);
  EXPECT_EQ(node->run(file.samples.front().experiment).size(), 2U);
  EXPECT_EQ(node->recorded_experiments()->size(), make_recorded_node(recording())->recorded_experiments()->size());
}

TEST(RecordedNode, NamesAnExperimentThatItLacks) {
  const std::unique_ptr<Node> node = make_recorded_node(recording());
  BurstExperiment missing = test::isolated_experiment(77, 12345 * 16);
  try {
    (void)node->run(missing);
    FAIL() << "served an experiment that was never recorded";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("equations"));
    EXPECT_THAT(error.what(), HasSubstr("store16 isolated aligned from device 0 to device 1"));
    EXPECT_THAT(error.what(), HasSubstr("77 producers of 256 threads x 197520 bytes"));
  }
}

TEST(RecordedNode, RefusesAnEmptyFile) {
  SamplesFile file;
  file.node = test::synthetic_node();
  EXPECT_THROW((void)make_recorded_node(file), InputError);
}

}  // namespace
}  // namespace xstage::recorded_node_test
