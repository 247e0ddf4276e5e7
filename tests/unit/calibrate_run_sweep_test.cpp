#include <gtest/gtest.h>

#include "unit/calibrate_synthetic.hpp"
#include "xstage/calibrate.hpp"
#include "xstage/error.hpp"

namespace xstage::calibrate_run_sweep_test {
namespace {

/// Answers from the equations, and refuses one burst size if told to.
class EquationsNode final : public Node {
 public:
  explicit EquationsNode(std::int64_t refused_bytes = 0) : refused_bytes_(refused_bytes) {}
  [[nodiscard]] NodeDescription describe() const override { return test::synthetic_node(); }
  [[nodiscard]] std::vector<BurstSample> run(const BurstExperiment& experiment) override {
    if (experiment.bytes == refused_bytes_) {
      throw DeviceError("refused");
    }
    ++runs;
    return test::synthetic_samples(test::Truth(), experiment, noise_);
  }
  int runs = 0;

 private:
  std::int64_t refused_bytes_;
  test::Noise noise_;
};

TEST(RunSweep, RunsEveryExperimentInOrderAndKeepsEverySample) {
  EquationsNode node;
  const SamplesFile file = run_sweep(node, true);
  const std::vector<BurstExperiment> experiments = calibration_sweep(test::synthetic_node(), true);
  EXPECT_EQ(node.runs, static_cast<int>(experiments.size()));
  std::vector<BurstExperiment> seen;
  for (const BurstSample& sample : file.samples) {
    if (sample.burst_index <= 0) {  // a train's bursts are one experiment
      seen.push_back(sample.experiment);
    }
  }
  EXPECT_EQ(seen, experiments);
  EXPECT_EQ(file.node.sweep, "quick");
}

TEST(RunSweep, ReportsProgressBeforeEachExperiment) {
  EquationsNode node;
  std::vector<std::size_t> done;
  std::size_t total = 0;
  (void)run_sweep(node, true, [&](std::size_t now, std::size_t all) {
    EXPECT_EQ(static_cast<int>(now), node.runs);
    done.push_back(now);
    total = all;
    return true;
  });
  ASSERT_EQ(done.size(), total);
  EXPECT_EQ(done.front(), 0U);
  EXPECT_EQ(done.back(), total - 1);
}

TEST(RunSweep, StopsWhenAsked) {
  EquationsNode node;
  EXPECT_THROW((void)run_sweep(node, true, [](std::size_t done, std::size_t) { return done < 5; }), Interrupted);
  EXPECT_EQ(node.runs, 5);
}

TEST(RunSweep, ARefusedExperimentIsAnError) {
  EquationsNode node(36 * 1024);
  EXPECT_THROW((void)run_sweep(node, true), DeviceError);
}

}  // namespace
}  // namespace xstage::calibrate_run_sweep_test
