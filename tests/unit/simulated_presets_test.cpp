/// The numbers that must emerge from the presets. None of them is put in: the presets hold rates of single parts,
/// queue sizes and latencies.
///
/// Sources: h200x2: first measurement of two H200 (tests/data/first_measurement_h200x2.csv, medians over producers).
/// paper-8x148: arXiv 2607.23264, sections 3.3 to 3.5.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "node/burst_trace.hpp"
#include "node/simulated/simulation.hpp"
#include "xstage/files.hpp"
#include "xstage/simulated_node.hpp"

namespace xstage {
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
    return drain_gb_per_s(run("h200x2", BurstMode::periodic, Regime::free_running, producers, 64 * kib));
  };
  expect_within(rate(132), 372, 0.02);
  expect_within(rate(33), 367, 0.03);
  expect_within(rate(4), 200, 0.03);  // four SMs cannot outrun the fabric: 50 GB/s each
}

TEST(SimulatedH200, IssueFloor) {
  const auto issue = [](std::int64_t bytes) {
    return run("h200x2", BurstMode::isolated, Regime::aligned, 8, bytes).issue_us;
  };
  expect_within(issue(1 * kib), 0.100, 0.05);
  expect_within(issue(8 * kib), 0.147, 0.05);
  expect_within(issue(16 * kib), 0.214, 0.05);
  expect_within(issue(24 * kib), 0.345, 0.05);
  expect_within(issue(64 * kib), 1.144, 0.10);
}

TEST(SimulatedH200, CapacityOfAllProducers) {
  // Knee at about 24 KiB x 132; Q = V - R T at 128 KiB: 17.3 MB - 372 GB/s x 37.9 us = 3.2 MB.
  const BurstSample sample = run("h200x2", BurstMode::isolated, Regime::aligned, 132, 128 * kib);
  expect_within(132.0 * 128 * kib - 372e3 * sample.issue_us, 3.2e6, 0.25);
  EXPECT_LT(run("h200x2", BurstMode::isolated, Regime::aligned, 132, 20 * kib).issue_us, 0.35);
  EXPECT_GT(run("h200x2", BurstMode::isolated, Regime::aligned, 132, 28 * kib).issue_us, 1.0);
}

TEST(SimulatedH200, BulkCopiesHoldLess) {
  // Knee at 8 to 12 KiB per producer: 0.26 us at 8 KiB, 2.2 us at 16 KiB.
  BurstExperiment e;
  e.path = StorePath::bulk;
  e.mode = BurstMode::isolated;
  e.regime = Regime::aligned;
  e.producers = 132;
  const auto node = make_simulated_node("h200x2");
  e.bytes = 8 * kib;
  expect_within(node->run(e).front().issue_us, 0.263, 0.10);
  e.bytes = 16 * kib;
  expect_within(node->run(e).front().issue_us, 2.176, 0.35);
}

TEST(SimulatedH200, ArbitrationIsUnfair) {
  // Total time of the fastest over that of the slowest producer: 0.49 at K = 16, 0.71 at K = 132.
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
  // 132 x 64 KiB, G = 24 us: 1.1 us free-running, 15.3 us aligned, V/R = 23.3 us.
  const BurstSample apart = run("h200x2", BurstMode::periodic, Regime::free_running, 132, 64 * kib, 24);
  const BurstSample together = run("h200x2", BurstMode::periodic, Regime::aligned, 132, 64 * kib, 24);
  expect_within(apart.issue_us, 1.14, 0.20);
  expect_within(together.issue_us, 15.3, 0.15);
}

TEST(SimulatedH200, TheLocalControlIsFlat) {
  // 132 x 32 KiB: 0.466 us from a gap of 0.5 us on.
  const auto issue = [](double gap_us) {
    return run("h200x2", BurstMode::periodic, Regime::free_running, 132, 32 * kib, gap_us, Target::local).issue_us;
  };
  const double long_gap = issue(20);
  expect_within(long_gap, 0.466, 0.10);
  for (const double gap_us : {2.0, 8.0, 14.0}) {
    expect_within(issue(gap_us), long_gap, 0.05);
  }
}

/// Relative errors of one column over the rows that have it.
double median_error(const SamplesFile& measured, double BurstSample::*column,
                    const std::vector<BurstSample>& simulated) {
  std::vector<double> errors;
  for (std::size_t row = 0; row < simulated.size(); ++row) {
    const double wanted = measured.samples[row].*column;
    if (std::isfinite(wanted)) {
      errors.push_back(std::abs(simulated[row].*column - wanted) / wanted);
    }
  }
  return median_of(errors);
}

TEST(SimulatedH200, ReproducesTheFirstMeasurement) {
  const SamplesFile measured =
      read_samples(std::string(XSTAGE_SOURCE_DIR) + "/tests/data/first_measurement_h200x2.csv");
  const auto node = make_simulated_node("h200x2");
  std::vector<BurstSample> simulated;
  for (const BurstSample& row : measured.samples) {
    BurstExperiment e = row.experiment;
    e.bursts = e.mode == BurstMode::isolated ? 1 : 16;
    simulated.push_back(node->run(e).front());
  }
  EXPECT_LE(median_error(measured, &BurstSample::issue_us, simulated), 0.10);
  EXPECT_LE(median_error(measured, &BurstSample::visible_us, simulated), 0.10);
  EXPECT_LE(median_error(measured, &BurstSample::period_us, simulated), 0.10);
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
}  // namespace xstage
