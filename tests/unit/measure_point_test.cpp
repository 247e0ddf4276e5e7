/// One point of a node: what is compared with what, intervals, verdicts, recorded nodes.

#include "xstage/measure.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "unit/calibrate_synthetic.hpp"
#include "xstage/error.hpp"
#include "xstage/recorded_node.hpp"
#include "xstage/simulated_node.hpp"

namespace xstage::measure_point_test {
namespace {

using testing::HasSubstr;

/// A machine that obeys the equations, each repetition with noise of its own.
class EquationsNode final : public Node {
 public:
  explicit EquationsNode(double deviation = 0) : noise_(deviation, 5) {}
  [[nodiscard]] NodeDescription describe() const override { return test::synthetic_node(); }
  [[nodiscard]] std::vector<BurstSample> run(const BurstExperiment& experiment) override {
    experiments.push_back(experiment);
    return test::synthetic_samples(test::Truth(), experiment, noise_);
  }
  std::vector<BurstExperiment> experiments;

 private:
  test::Noise noise_;
};

BurstExperiment point_of(int producers, std::int64_t bytes, double gap_us) {
  BurstExperiment point;
  point.producers = producers;
  point.bytes = bytes;
  point.gap_us = gap_us;
  point.bursts = 0;
  return point;
}

MeasuredPoint measure(Node& node, const BurstExperiment& point, int repetitions = 3) {
  return measure_point([&](int) -> Node& { return node; }, point, repetitions);
}

std::string refusal(Node& node, const BurstExperiment& point, int repetitions = 1) {
  try {
    static_cast<void>(measure(node, point, repetitions));
  } catch (const InputError& error) {
    return error.what();
  }
  return "not refused";
}

TEST(MeasurePoint, MeasuresThePointABurstAloneAndTheFloor) {
  EquationsNode node;
  const MeasuredPoint point = measure(node, point_of(64, 65536, 5), 2);
  ASSERT_EQ(node.experiments.size(), 6U);
  EXPECT_EQ(node.experiments[0].mode, BurstMode::periodic);
  EXPECT_GT(node.experiments[0].bursts, 1) << "as many as a calibration takes";
  EXPECT_EQ(node.experiments[1].mode, BurstMode::isolated);
  EXPECT_EQ(node.experiments[1].producers, 64);
  EXPECT_EQ(node.experiments[2].mode, BurstMode::isolated);
  EXPECT_EQ(node.experiments[2].producers, 4);
  EXPECT_EQ(node.experiments[2].bytes, 65536);
  EXPECT_EQ(point.samples.size(), 6U);
  EXPECT_EQ(point.floor_producers, 4);
}

TEST(MeasurePoint, FewProducersAreTheirOwnFloor) {
  EquationsNode node;
  const MeasuredPoint point = measure(node, point_of(3, 4096, 50), 2);
  EXPECT_EQ(node.experiments.size(), 4U);
  EXPECT_EQ(point.floor_producers, 3);
  EXPECT_EQ(point.floor_us.value, point.alone_issue_us.value);
}

TEST(MeasurePoint, AShortGapIsHeldBackByWhatTheDrainLacks) {
  EquationsNode node;
  const test::Truth truth;
  const MeasuredPoint point = measure(node, point_of(132, 65536, 2));
  const double drain_us = 132 * 65536 / truth.drain;
  EXPECT_EQ(point.back_pressure, BackPressure::held_back);
  EXPECT_NEAR(point.stall_us.value, drain_us - 2 - truth.floor_us(65536), 0.01 * drain_us);
  EXPECT_NEAR(point.bursts.front().period_us.value, drain_us, 0.01 * drain_us);
  EXPECT_NEAR(point.bursts.front().rate_gb_per_s.value, truth.drain / 1000, 4);
}

TEST(MeasurePoint, ALongGapFreeRuns) {
  EquationsNode node;
  const MeasuredPoint point = measure(node, point_of(132, 65536, 100));
  EXPECT_EQ(point.back_pressure, BackPressure::free_runs);
  EXPECT_NEAR(point.stall_us.value, 0, 0.01);
}

/// Repetitions lie by turns above and below what counts as spread: a fifth of the floor.
class WaveringNode final : public Node {
 public:
  [[nodiscard]] NodeDescription describe() const override { return test::synthetic_node(); }
  [[nodiscard]] std::vector<BurstSample> run(const BurstExperiment& experiment) override {
    std::vector<BurstSample> samples = test::synthetic_samples(test::Truth(), experiment, noise_);
    if (experiment.mode == BurstMode::periodic) {
      above_ = !above_;
      samples.front().issue_us = test::Truth().floor_us(static_cast<double>(experiment.bytes)) * (above_ ? 1.3 : 1.1);
    }
    return samples;
  }

 private:
  bool above_ = false;
  test::Noise noise_;
};

TEST(MeasurePoint, AStallAroundTheSpreadIsNotDecided) {
  WaveringNode node;
  const MeasuredPoint point = measure(node, point_of(132, 65536, 20), 8);
  EXPECT_LT(point.stall_us.low, point.tolerance_us);
  EXPECT_GT(point.stall_us.high, point.tolerance_us);
  EXPECT_EQ(point.back_pressure, BackPressure::not_decided);
}

TEST(MeasurePoint, OneRepetitionHasNoInterval) {
  EquationsNode node(0.01);
  const MeasuredValue once = measure(node, point_of(132, 32768, 0), 1).bursts.front().issue_us;
  EXPECT_EQ(once.repetitions, 1);
  EXPECT_TRUE(std::isnan(once.low) && std::isnan(once.high));
  const MeasuredValue often = measure(node, point_of(132, 32768, 0), 8).bursts.front().issue_us;
  EXPECT_LT(often.low, often.value);
  EXPECT_GT(often.high, often.value);
}

TEST(MeasurePoint, ATrainHasARowForEachBurst) {
  EquationsNode node;
  BurstExperiment train = point_of(132, 16384, 2);
  train.mode = BurstMode::train;
  const MeasuredPoint point = measure(node, train);
  ASSERT_EQ(point.bursts.size(), 12U);
  EXPECT_TRUE(std::isnan(point.bursts[0].gap_us.value)) << "nothing is before the first burst";
  EXPECT_LT(point.bursts[0].issue_us.value, point.bursts[11].issue_us.value);
  EXPECT_EQ(point.back_pressure, BackPressure::held_back);
  EXPECT_NEAR(point.stall_us.value, point.bursts[11].issue_us.value - point.floor_us.value, 0.01);
}

TEST(MeasurePoint, TheProfilePredictsWhatItWasFittedTo) {
  const Platform platform = fit(test::synthetic_calibration(test::Truth(), false));
  EquationsNode node;
  for (const BurstMode mode : {BurstMode::periodic, BurstMode::fixed_work, BurstMode::train}) {
    BurstExperiment experiment = point_of(132, 32768, 5);
    experiment.mode = mode;
    MeasuredPoint point = measure(node, experiment);
    EXPECT_TRUE(predict_point(platform, point).empty());
    const MeasuredBurst& last = point.bursts.back();
    if (mode == BurstMode::train) {
      EXPECT_NEAR(last.issue_us.law, last.issue_us.value, 0.05 * last.issue_us.value);
    } else {
      EXPECT_NEAR(last.period_us.law, last.period_us.value, 0.05 * last.period_us.value) << name_of(mode);
    }
    EXPECT_EQ(std::isfinite(last.period_us.corrected), mode == BurstMode::fixed_work);
    EXPECT_NEAR(point.floor_us.law, point.floor_us.value, 0.05 * point.floor_us.value);
    EXPECT_NEAR(point.alone_issue_us.law, point.alone_issue_us.value, 0.05 * point.alone_issue_us.value);
    EXPECT_NEAR(point.alone_complete_us.law, 132 * 32768 / test::Truth().drain, 0.2);
  }
}

TEST(MeasurePoint, SaysWhyTheProfileCannotPredict) {
  const Platform platform = fit(test::synthetic_calibration(test::Truth(), true));  // 16-byte stores only
  EquationsNode node;
  BurstExperiment experiment = point_of(132, 32768, 5);
  experiment.path = StorePath::store4;
  MeasuredPoint point = measure(node, experiment);
  EXPECT_THAT(predict_point(platform, point), testing::ElementsAre(HasSubstr("no such store path")));
  EXPECT_TRUE(std::isnan(point.bursts.front().issue_us.law));
}

TEST(MeasurePoint, SamplesAreThoseThatFitAndValidateTake) {
  SamplesFile file = test::synthetic_calibration(test::Truth(), true);
  EquationsNode node;
  BurstExperiment experiment = point_of(100, 65536, 3);
  experiment.held_out = true;
  const MeasuredPoint point = measure(node, experiment);
  file.samples.insert(file.samples.end(), point.samples.begin(), point.samples.end());
  const SamplesFile read = parse_samples(format_samples(file), "test");
  const std::size_t before = validate(fit(read), test::synthetic_calibration(test::Truth(), true), false).rows.size();
  EXPECT_EQ(validate(fit(read), read, false).rows.size(), before + point.samples.size());
}

TEST(MeasurePoint, RefusesWhatTheNodeCannotRun) {
  EquationsNode node;
  const auto changed = [&](const std::function<void(BurstExperiment&)>& change, int repetitions = 1) {
    BurstExperiment point = point_of(8, 4096, 1);
    change(point);
    return refusal(node, point, repetitions);
  };
  EXPECT_THAT(changed([](BurstExperiment& e) { e.producers = 0; }), HasSubstr("producers 0"));
  EXPECT_THAT(changed([](BurstExperiment& e) { e.producers = 133; }), HasSubstr("132 multiprocessors"));
  EXPECT_THAT(changed([](BurstExperiment& e) { e.bytes = 100; }), HasSubstr("not divisible by 16"));
  EXPECT_THAT(changed([](BurstExperiment& e) { e.destinations = {5}; }), HasSubstr("destination 5"));
  EXPECT_THAT(changed([](BurstExperiment& e) { e.destinations = {0}; }), HasSubstr("equals the source"));
  EXPECT_THAT(changed([](BurstExperiment& e) { e.gap_us = -1; }), HasSubstr("gap_us -1"));
  EXPECT_THAT(changed([](BurstExperiment&) {}, 0), HasSubstr("repetitions 0"));
  EXPECT_TRUE(node.experiments.empty()) << "refused before anything ran";
}

TEST(MeasurePoint, StopsBetweenExperiments) {
  EquationsNode node;
  const auto stop_at_second = [](std::size_t done, std::size_t total) {
    EXPECT_EQ(total, 9U);
    return done < 1;
  };
  EXPECT_THROW(
      static_cast<void>(measure_point([&](int) -> Node& { return node; }, point_of(64, 32768, 1), 3, stop_at_second)),
      Interrupted);
  EXPECT_EQ(node.experiments.size(), 1U);
}

TEST(MeasurePoint, ARecordedNodeAnswersFromItsSamples) {
  const SamplesFile file = test::synthetic_calibration(test::Truth(), false);
  const std::unique_ptr<Node> node = make_recorded_node(file);
  const MeasuredPoint point = measure(*node, point_of(132, 32768, 0));
  EXPECT_EQ(point.bursts.front().issue_us.repetitions, 1) << "what the file holds, however many were asked for";
  EXPECT_EQ(point.back_pressure, BackPressure::held_back);
  EXPECT_GT(point.alone_issue_us.repetitions, 0);
  EXPECT_GT(point.floor_us.repetitions, 0);
}

TEST(MeasurePoint, ARecordedPointIsFoundByThePrintedDigitsOfItsGap) {
  const SamplesFile file = test::synthetic_calibration(test::Truth(), true);
  const std::unique_ptr<Node> node = make_recorded_node(file);
  for (const BurstSample& sample : file.samples) {
    const BurstExperiment& recorded = sample.experiment;
    if (recorded.mode == BurstMode::periodic && recorded.target == Target::remote && recorded.gap_us > 1 &&
        recorded.filler == GapFiller::spin && recorded.direction == Direction::one_way) {
      BurstExperiment asked = point_of(recorded.producers, recorded.bytes, std::round(recorded.gap_us * 100) / 100);
      asked.regime = recorded.regime;
      EXPECT_EQ(measure(*node, asked).experiment, recorded);
    }
  }
}

TEST(MeasurePoint, ARecordedNodeNamesTheNearestPointsFirst) {
  const std::unique_ptr<Node> node = make_recorded_node(test::synthetic_calibration(test::Truth(), true));
  const std::string message = refusal(*node, point_of(131, 32000, 0));
  EXPECT_THAT(message, HasSubstr("do not hold --producers 131 --bytes 32000 --gap-us 0"));
  EXPECT_THAT(message, HasSubstr("nearest first, they hold\n  --producers 132 --bytes 32768 --gap-us 0 --path store16 "
                                 "--regime free-running\n"));
}

TEST(MeasurePoint, TheSimulatedNodeStallsWhereItsFabricIsFull) {
  SimulatedHardware hardware = simulated_preset("h200x2");
  std::vector<std::unique_ptr<Node>> nodes;
  for (int repetition = 0; repetition < 3; ++repetition) {
    hardware.seed += 2;
    nodes.push_back(make_simulated_node(hardware));
  }
  const auto of_repetition = [&](int repetition) -> Node& { return *nodes[static_cast<std::size_t>(repetition)]; };
  BurstExperiment experiment = point_of(132, 32768, 1);
  experiment.bursts = 24;
  const MeasuredPoint held = measure_point(of_repetition, experiment, 3);
  EXPECT_EQ(held.back_pressure, BackPressure::held_back);
  EXPECT_LT(held.bursts.front().issue_us.low, held.bursts.front().issue_us.high) << "repetitions draw anew";
  EXPECT_GT(held.alone_complete_us.value, held.alone_issue_us.value);
  experiment.gap_us = 40;
  EXPECT_EQ(measure_point(of_repetition, experiment, 2).back_pressure, BackPressure::free_runs);
}

}  // namespace
}  // namespace xstage::measure_point_test
