/// What must hold for the simulated node whatever its numbers are.

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "node/simulated/simulation.hpp"
#include "xstage/error.hpp"
#include "xstage/simulated_node.hpp"

namespace xstage::simulated_node_test {
namespace {

constexpr std::int64_t kib = 1024;

BurstExperiment experiment(BurstMode mode, Regime regime, int producers, std::int64_t bytes, double gap_us = 0,
                           int bursts = 16) {
  BurstExperiment e;
  e.mode = mode;
  e.regime = regime;
  e.producers = producers;
  e.bytes = bytes;
  e.gap_us = gap_us;
  e.bursts = bursts;
  return e;
}

BurstExperiment isolated(int producers, std::int64_t bytes) {
  return experiment(BurstMode::isolated, Regime::aligned, producers, bytes, 0, 2);
}

BurstExperiment steady(int producers, std::int64_t bytes, double gap_us = 0) {
  return experiment(BurstMode::periodic, Regime::free_running, producers, bytes, gap_us);
}

std::vector<BurstSample> run(const BurstExperiment& e, const SimulatedHardware& hardware = simulated_preset("h200x2")) {
  return make_simulated_node(hardware)->run(e);
}

std::string complaint(const BurstExperiment& e) {
  try {
    (void)run(e);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

/// Every kind of experiment once, small.
std::vector<BurstExperiment> one_of_each() {
  std::vector<BurstExperiment> all{isolated(33, 24 * kib),
                                   steady(40, 8 * kib, 1),
                                   experiment(BurstMode::periodic, Regime::aligned, 40, 8 * kib, 0, 6),
                                   experiment(BurstMode::train, Regime::aligned, 20, 16 * kib, 1, 5),
                                   experiment(BurstMode::train, Regime::free_running, 20, 16 * kib, 1, 5),
                                   experiment(BurstMode::fixed_work, Regime::free_running, 24, 16 * kib, 1, 9)};
  for (const StorePath path : {StorePath::store4, StorePath::store8, StorePath::bulk}) {
    all.push_back(isolated(20, 4 * kib + 16));
    all.back().path = path;
  }
  for (const GapFiller filler : {GapFiller::memory_reads, GapFiller::tensor_cores}) {
    all.push_back(steady(40, 16 * kib, 1));
    all.back().filler = filler;
  }
  all.push_back(steady(30, 8 * kib));
  all.back().target = Target::local;
  all.push_back(steady(30, 8 * kib));
  all.back().direction = Direction::both_ways;
  return all;
}

TEST(SimulatedNode, EveryStoredByteArrives) {
  for (const BurstExperiment& e : one_of_each()) {
    const auto result = simulated::simulate(simulated_preset("h200x2"), e);
    for (const auto& source : result.sources) {
      std::int64_t bursts = 0;
      for (const auto& producer : source.trace.producers) {
        bursts += static_cast<std::int64_t>(producer.size());
        for (const auto& burst : producer) {
          EXPECT_TRUE(std::isfinite(burst.issued_us));
        }
      }
      EXPECT_EQ(source.bytes_stored, bursts * e.bytes);
      EXPECT_EQ(source.bytes_delivered, source.bytes_stored);
    }
    for (const BurstSample& sample : run(e)) {
      EXPECT_TRUE(sample.verified);
    }
  }
}

TEST(SimulatedNode, SameSeedSameSamplesInAnyOrder) {
  const auto node = make_simulated_node("h200x2");
  const BurstExperiment first = steady(66, 16 * kib, 2);
  const BurstSample a = node->run(first).front();
  (void)node->run(isolated(132, 8 * kib));
  const BurstSample b = node->run(first).front();
  EXPECT_EQ(a.issue_us, b.issue_us);
  EXPECT_EQ(a.period_us, b.period_us);
  EXPECT_EQ(a.issue_p95_us, b.issue_p95_us);

  SimulatedHardware other = simulated_preset("h200x2");
  other.seed += 1;
  const BurstSample c = run(first, other).front();
  EXPECT_NE(a.issue_us, c.issue_us);
  EXPECT_NEAR(a.period_us, c.period_us, 0.05 * a.period_us);
}

TEST(SimulatedNode, ATraceIsCausal) {
  for (const BurstExperiment& e : one_of_each()) {
    const auto result = simulated::simulate(simulated_preset("h200x2"), e);
    for (const auto& source : result.sources) {
      for (const auto& producer : source.trace.producers) {
        double clock = 0;
        for (const auto& burst : producer) {
          EXPECT_GE(burst.start_us, clock);
          EXPECT_GT(burst.issued_us, burst.start_us);
          clock = burst.issued_us + e.gap_us;
          if (e.mode == BurstMode::isolated) {
            EXPECT_GT(burst.visible_us, burst.issued_us);
          }
        }
      }
    }
  }
}

TEST(SimulatedNode, MoreBytesAndMoreProducersNeverIssueFaster) {
  for (const StorePath path : {StorePath::store16, StorePath::bulk}) {
    for (const int producers : {8, 66, 132}) {
      double before = 0;
      for (const std::int64_t size : {1, 4, 16, 24, 32, 64}) {
        BurstExperiment e = isolated(producers, size * kib);
        e.path = path;
        const double issue = run(e).front().issue_us;
        EXPECT_GE(issue, before) << producers << " x " << size << " KiB";
        before = issue;
      }
    }
  }
  double before = 0;
  for (const int producers : {1, 16, 66, 132}) {
    const double issue = run(isolated(producers, 48 * kib)).front().issue_us;
    EXPECT_GE(issue, before * 0.99) << producers;  // another set of SMs, arbitrated a little differently
    before = issue;
  }
}

TEST(SimulatedNode, ALongerGapNeverLengthensTheIssue) {
  double before = std::numeric_limits<double>::infinity();
  for (const double gap : {0.0, 2.0, 4.0, 8.0, 16.0}) {
    const double issue = run(steady(132, 16 * kib, gap)).front().issue_us;
    EXPECT_LE(issue, before * 1.01) << gap;
    before = issue;
  }
}

TEST(SimulatedNode, TheDrainNeverExceedsTheLinks) {
  const SimulatedHardware h = simulated_preset("h200x2");
  const double most = h.links * h.link_gb_per_s * 128 / (128 + h.header_bytes);
  for (const int producers : {16, 66, 132}) {
    const BurstSample sample = run(steady(producers, 32 * kib)).front();
    EXPECT_LE(sample.stored_bytes / sample.window_us * 1e-3, most * 1.005) << producers;
  }
}

TEST(SimulatedNode, NarrowStoresDrainAlikeAndIssueLonger) {
  // H200: 4-, 8- and 16-byte stores drain alike; bursts of 8 KiB, which fit, issue in 0.30, 0.22 and 0.18 us
  // (profiles/h200x2-samples.csv).
  BurstExperiment zero_gap = steady(132, 16 * kib);
  BurstExperiment burst = isolated(132, 8 * kib);
  const double period = run(zero_gap).front().period_us;
  double before = run(burst).front().issue_us;
  for (const StorePath path : {StorePath::store8, StorePath::store4}) {
    zero_gap.path = path;
    burst.path = path;
    EXPECT_NEAR(run(zero_gap).front().period_us, period, 0.02 * period);
    const double issue = run(burst).front().issue_us;
    EXPECT_GT(issue, before);
    before = issue;
  }
}

TEST(SimulatedNode, ATrainReportsEachBurstAndStartsEmpty) {
  SimulatedHardware hardware = simulated_preset("h200x2");
  hardware.barrier_behind_stores = false;
  const auto train = run(experiment(BurstMode::train, Regime::aligned, 132, 16 * kib, 2, 6), hardware);
  ASSERT_EQ(train.size(), 6u);
  for (int burst = 0; burst < 6; ++burst) {
    EXPECT_EQ(train[static_cast<std::size_t>(burst)].burst_index, burst);
  }
  const double alone = run(isolated(132, 16 * kib), hardware).front().issue_us;
  EXPECT_NEAR(train.front().issue_us, alone, 0.02 * alone);
  // Two microseconds do not drain 2 MiB: the second burst meets back-pressure.
  EXPECT_GT(train[1].issue_us, 3 * alone);
}

TEST(SimulatedNode, ABarrierBehindTheStoresLeavesLittleInFrontOfTheNextBurst) {
  SimulatedHardware hardware = simulated_preset("h200x2");
  hardware.barrier_behind_stores = true;
  const auto train = run(experiment(BurstMode::train, Regime::aligned, 132, 16 * kib, 2, 6), hardware);
  EXPECT_NEAR(train.back().issue_us, train.front().issue_us, 0.05 * train.front().issue_us);
}

TEST(SimulatedNode, BothWaysReportsEachSourceAndChangesNothingForTwoDevices) {
  BurstExperiment e = steady(132, 32 * kib);
  const double one_way = run(e).front().period_us;
  e.direction = Direction::both_ways;
  const auto samples = run(e);
  ASSERT_EQ(samples.size(), 2u);
  EXPECT_EQ(samples[0].experiment.source, 0);
  EXPECT_EQ(samples[1].experiment.source, 1);
  EXPECT_EQ(samples[1].experiment.destinations, std::vector<int>{0});
  // H200: "both directions at once: unchanged".
  EXPECT_NEAR(samples[0].period_us, one_way, 0.02 * one_way);
  EXPECT_NEAR(samples[1].period_us, one_way, 0.02 * one_way);
}

TEST(SimulatedNode, SeveralSendersShareTheLinksOfTheirDestination) {
  SimulatedHardware hardware = simulated_preset("h200x2");
  hardware.devices = 4;
  BurstExperiment e = steady(64, 32 * kib);
  const double alone = run(e, hardware).front().period_us;
  e.destinations = {1, 2, 3};
  e.direction = Direction::both_ways;
  const auto samples = run(e, hardware);
  ASSERT_EQ(samples.size(), 4u);
  EXPECT_NEAR(samples[0].period_us, alone, 0.05 * alone) << "three destinations do not slow one source";
  for (std::size_t sender = 1; sender < 4; ++sender) {
    EXPECT_NEAR(samples[sender].period_us, 3 * alone, 0.15 * alone) << "three sources into one destination";
  }
}

TEST(SimulatedNode, MemoryReadsQueueBehindStores) {
  // H200, 132 x 32 KiB, nominal gap 2 us: the period stays, the gap stretches, the issue time shrinks.
  BurstExperiment e = steady(132, 32 * kib, 2);
  const BurstSample spin = run(e).front();
  e.filler = GapFiller::memory_reads;
  const BurstSample reads = run(e).front();
  EXPECT_GT(reads.gap_us, spin.gap_us + 2);
  EXPECT_LT(reads.issue_us, spin.issue_us - 2);
  EXPECT_NEAR(reads.period_us, spin.period_us, 0.08 * spin.period_us);
}

TEST(SimulatedNode, RefusesWhatTheRulesRefuse) {
  EXPECT_NE(complaint(isolated(133, kib)).find("producers 133"), std::string::npos);
  EXPECT_NE(complaint(isolated(0, kib)).find("producers 0"), std::string::npos);
  EXPECT_NE(complaint(isolated(1, 8)).find("bytes 8: not divisible by 16"), std::string::npos);
  EXPECT_NE(complaint(isolated(4, std::int64_t{1} << 30)).find("a simulated burst has at most"), std::string::npos);
  EXPECT_NE(complaint(experiment(BurstMode::train, Regime::aligned, 132, 32 * kib, 0, 1'000'000)).find("train"),
            std::string::npos);
}

TEST(SimulatedNode, DescribesItself) {
  const NodeDescription node = make_simulated_node("paper-8x148")->describe();
  EXPECT_EQ(node.kind, "simulated");
  EXPECT_EQ(node.name, "paper-8x148");
  ASSERT_EQ(node.devices.size(), 8u);
  EXPECT_EQ(node.devices.front().multiprocessors, 148);
  EXPECT_EQ(make_simulated_node("h200x2")->describe().devices.front().multiprocessors, 132);
}

}  // namespace
}  // namespace xstage::simulated_node_test
