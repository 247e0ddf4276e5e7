/// The numbers that must emerge from the presets. None of them is put in: the presets hold rates of single parts,
/// queue sizes and latencies.
///
/// Sources: h200x2: the calibration of two H200 in profiles/h200x2-samples.csv; single numbers in the tests are from
/// there. paper-8x148: arXiv 2607.23264, sections 3.3 to 3.5.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "node/quantiles.hpp"
#include "node/simulated/simulation.hpp"
#include "xstage/files.hpp"
#include "xstage/simulated_node.hpp"

namespace xstage::simulated_presets_test {
namespace {

constexpr std::int64_t kib = 1024;
constexpr double mib = 1048576;

BurstSample run(const std::string& preset, BurstMode mode, Regime regime, int producers, std::int64_t bytes,
                double gap_us = 0, Target target = Target::remote) {
  BurstExperiment e;
  e.mode = mode;
  e.regime = regime;
  e.target = target;
  e.producers = producers;
  e.bytes = bytes;
  e.gap_us = gap_us;
  e.bursts = mode == BurstMode::isolated ? 2 : 24;
  return make_simulated_node(preset)->run(e).front();
}

double drain_gb_per_s(const BurstSample& sample) { return sample.stored_bytes / sample.window_us * 1e-3; }

void expect_within(double value, double wanted, double relative) { EXPECT_NEAR(value, wanted, relative * wanted); }

TEST(SimulatedH200, DrainRates) {
  const auto rate = [](int producers) {
    return drain_gb_per_s(run("h200x2", BurstMode::periodic, Regime::free_running, producers, 128 * kib));
  };
  // Four SMs cannot outrun the fabric.
  expect_within(rate(132), 374.1, 0.01);
  expect_within(rate(33), 374.1, 0.01);
  expect_within(rate(4), 184.3, 0.05);
}

TEST(SimulatedH200, IssueFloor) {
  const auto issue = [](std::int64_t bytes) {
    return run("h200x2", BurstMode::isolated, Regime::aligned, 4, bytes).issue_us;
  };
  expect_within(issue(1 * kib), 0.129, 0.10);
  expect_within(issue(8 * kib), 0.176, 0.05);
  expect_within(issue(16 * kib), 0.280, 0.05);
  expect_within(issue(24 * kib), 0.417, 0.05);
  expect_within(issue(64 * kib), 1.225, 0.05);
}

TEST(SimulatedH200, NarrowStoresCostMoreIssueSlots) {
  BurstExperiment e;
  e.mode = BurstMode::isolated;
  e.regime = Regime::aligned;
  e.producers = 4;
  e.bytes = 32 * kib;
  const auto node = make_simulated_node("h200x2");
  e.path = StorePath::store4;
  expect_within(node->run(e).front().issue_us, 0.886, 0.10);
  e.path = StorePath::store8;
  expect_within(node->run(e).front().issue_us, 0.583, 0.10);
}

TEST(SimulatedH200, CapacityOfAllProducers) {
  // Q = V - R T: 17.3 MB - 373 GB/s x 37.9 us = 3.2 MB at 128 KiB, 6.49 - 373 x 11.12 = 2.34 MB at 48 KiB.
  const auto capacity = [](std::int64_t bytes) {
    const BurstSample sample = run("h200x2", BurstMode::isolated, Regime::aligned, 132, bytes);
    return 132.0 * static_cast<double>(bytes) - 373e3 * sample.issue_us;
  };
  expect_within(capacity(128 * kib), 3.17e6, 0.20);
  expect_within(capacity(48 * kib), 2.34e6, 0.10);
}

TEST(SimulatedH200, BulkCopiesHoldLess) {
  // K = 132: 0.354 us at 8 KiB, 2.26 us at 16 KiB, 8.09 us at 32 KiB.
  BurstExperiment e;
  e.path = StorePath::bulk;
  e.mode = BurstMode::isolated;
  e.regime = Regime::aligned;
  e.producers = 132;
  const auto node = make_simulated_node("h200x2");
  e.bytes = 8 * kib;
  expect_within(node->run(e).front().issue_us, 0.354, 0.10);
  e.bytes = 16 * kib;
  expect_within(node->run(e).front().issue_us, 2.26, 0.20);
  e.bytes = 32 * kib;
  expect_within(node->run(e).front().issue_us, 8.09, 0.10);
}

TEST(SimulatedH200, ArbitrationIsUnfair) {
  // First measurement, total time of the fastest over that of the slowest producer: 0.49 at K = 16, 0.72 at K = 132.
  const auto ratio = [](int producers) {
    BurstExperiment e;
    e.mode = BurstMode::fixed_work;
    e.producers = producers;
    e.bytes = 64 * kib;
    e.bursts = 12;
    std::vector<double> times;
    const auto result = simulated::simulate(simulated_preset("h200x2"), e);
    for (const auto& bursts : result.sources.front().trace.producers) {
      times.push_back(bursts.back().issued_us - bursts.front().start_us);
    }
    return *std::min_element(times.begin(), times.end()) / *std::max_element(times.begin(), times.end());
  };
  EXPECT_GT(ratio(16), 0.35);
  EXPECT_LT(ratio(16), 0.70);
  EXPECT_GT(ratio(132), 0.60);
  EXPECT_LT(ratio(132), 0.85);
  EXPECT_GT(ratio(4), 0.98);
}

TEST(SimulatedH200, FreeRunningProducersDisperseAndAlignedOnesDoNot) {
  // 132 x 64 KiB, G = 23.25 us = V/R: 1.22 us free-running, 17.0 us aligned.
  const BurstSample apart = run("h200x2", BurstMode::periodic, Regime::free_running, 132, 64 * kib, 23.25);
  const BurstSample together = run("h200x2", BurstMode::periodic, Regime::aligned, 132, 64 * kib, 23.25);
  expect_within(apart.issue_us, 1.22, 0.05);
  expect_within(together.issue_us, 17.0, 0.10);
}

TEST(SimulatedH200, ABarrierQueuesBehindTheStores) {
  // 132 x 16 KiB fit into the X-Stage, and yet the aligned period at zero gap is V/R = 5.8 us: measured 5.82.
  const BurstSample sample = run("h200x2", BurstMode::periodic, Regime::aligned, 132, 16 * kib);
  expect_within(sample.period_us, 5.82, 0.05);
  // With a gap of 11.63 us, as without one, a burst meets empty windows: measured 0.293.
  const BurstSample apart = run("h200x2", BurstMode::periodic, Regime::aligned, 132, 16 * kib, 11.63);
  expect_within(apart.issue_us, 0.293, 0.10);
  expect_within(sample.issue_us, apart.issue_us, 0.10);
}

TEST(SimulatedH200, TheLocalControlIsFlat) {
  // 132 x 32 KiB, G = 11.6 us: 0.534 us.
  const auto issue = [](double gap_us) {
    return run("h200x2", BurstMode::periodic, Regime::free_running, 132, 32 * kib, gap_us, Target::local).issue_us;
  };
  const double long_gap = issue(20);
  expect_within(long_gap, 0.534, 0.10);
  for (const double gap_us : {2.0, 8.0, 14.0}) {
    expect_within(issue(gap_us), long_gap, 0.05);
  }
}

/// |simulated/measured - 1| of one column over all rows that have it.
class Errors {
 public:
  explicit Errors(double BurstSample::*column) : column_(column) {}
  void add(const BurstSample& measured, const BurstSample& simulated) {
    const double wanted = measured.*column_;
    if (std::isfinite(wanted) && wanted > 0) {
      errors_.push_back(std::abs(simulated.*column_ / wanted - 1));
    }
  }
  [[nodiscard]] std::size_t rows() const { return errors_.size(); }
  [[nodiscard]] double median() const { return median_of(errors_); }

 private:
  double BurstSample::*column_;
  std::vector<double> errors_;
};

/// Measured samples of one experiment, in the order of the file.
std::vector<std::vector<BurstSample>> by_experiment(const SamplesFile& file) {
  std::vector<std::vector<BurstSample>> groups;
  for (const BurstSample& sample : file.samples) {
    if (groups.empty() || !(groups.back().front().experiment == sample.experiment)) {
      groups.emplace_back();
    }
    groups.back().push_back(sample);
  }
  return groups;
}

TEST(SimulatedH200, ReproducesTheCalibration) {
  const SamplesFile measured = read_samples(std::string(XSTAGE_SOURCE_DIR) + "/profiles/h200x2-samples.csv");
  const auto node = make_simulated_node("h200x2");
  Errors issue(&BurstSample::issue_us);
  Errors period(&BurstSample::period_us);
  Errors visible(&BurstSample::visible_us);
  const auto groups = by_experiment(measured);
  for (std::size_t group = 0; group < groups.size(); group += 3) {  // a third of them, all kinds among them: seconds
    BurstExperiment e = groups[group].front().experiment;
    if (e.target == Target::local || e.direction == Direction::both_ways) {
      continue;
    }
    if (e.mode == BurstMode::isolated) {
      e.bursts = 1;
    } else if (e.mode == BurstMode::periodic) {
      e.bursts = 16;
    }
    const auto simulated = node->run(e);
    ASSERT_EQ(simulated.size(), groups[group].size());
    for (std::size_t row = 0; row < simulated.size(); ++row) {
      issue.add(groups[group][row], simulated[row]);
      period.add(groups[group][row], simulated[row]);
      visible.add(groups[group][row], simulated[row]);
    }
  }
  EXPECT_GT(issue.rows(), 150u);
  EXPECT_LE(issue.median(), 0.10);
  EXPECT_LE(period.median(), 0.10);
  EXPECT_LE(visible.median(), 0.10);
}

TEST(SimulatedPaper, DrainRate) {
  for (const std::int64_t size : {32, 128}) {
    expect_within(drain_gb_per_s(run("paper-8x148", BurstMode::periodic, Regime::free_running, 148, size * kib)), 717,
                  0.05);
  }
}

TEST(SimulatedPaper, IssueFloor) {
  expect_within(run("paper-8x148", BurstMode::periodic, Regime::free_running, 148, 32 * kib, 14).issue_us, 0.76, 0.05);
  expect_within(run("paper-8x148", BurstMode::isolated, Regime::aligned, 148, 32 * kib).issue_us, 0.76, 0.05);
}

TEST(SimulatedPaper, KneeAndCapacity) {
  const auto issue = [](std::int64_t bytes) {
    return run("paper-8x148", BurstMode::isolated, Regime::aligned, 148, bytes).issue_us;
  };
  // The isolated issue time leaves its floor, which a few producers show, between 32 and 35 KiB: 33 within 5%.
  const auto floor = [](std::int64_t bytes) {
    return run("paper-8x148", BurstMode::isolated, Regime::aligned, 4, bytes).issue_us;
  };
  expect_within(issue(32 * kib), floor(32 * kib), 0.05);
  EXPECT_GT(issue(35 * kib), 1.2 * floor(35 * kib));
  for (const std::int64_t size : {48, 64, 96}) {
    const double capacity = 148.0 * static_cast<double>(size * kib) - 717e3 * issue(size * kib);
    expect_within(capacity / mib, 4.25, 0.05);
  }
}

}  // namespace
}  // namespace xstage::simulated_presets_test
