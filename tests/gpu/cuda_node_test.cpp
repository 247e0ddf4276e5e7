// The CUDA node on real GPUs. Each test says why it was skipped where the machine lacks what it needs.

#include "xstage/cuda_node.hpp"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include "node/cuda/burst_kernel.hpp"
#include "node/cuda/burst_launch.hpp"
#include "node/cuda/discovery.hpp"
#include "xstage/error.hpp"
#include "xstage/measure.hpp"

namespace xstage::cuda_node_test {
namespace {

#define SKIP_WITHOUT_PEERS()                                                   \
  if (const std::string reason = cuda_unavailable_reason(); !reason.empty()) { \
    GTEST_SKIP() << reason;                                                    \
  }

#define SKIP_WITHOUT_GPU()                   \
  try {                                      \
    static_cast<void>(cuda::device_count()); \
  } catch (const DeviceError& error) {       \
    GTEST_SKIP() << error.what();            \
  }

BurstExperiment small_experiment() {
  BurstExperiment experiment;
  experiment.producers = 3;
  experiment.bytes = 4096;
  experiment.bursts = 20;
  return experiment;
}

bool has_bulk(const Node& node) { return node.describe().devices.front().compute_capability >= 90; }

TEST(CudaNode, EveryPathDeliversEveryWord) {
  SKIP_WITHOUT_PEERS();
  const auto node = make_cuda_node();
  for (const StorePath path : {StorePath::store4, StorePath::store8, StorePath::store16, StorePath::bulk}) {
    if (path == StorePath::bulk && !has_bulk(*node)) {
      continue;
    }
    // Sizes that fill neither a warp's store nor a bulk chunk nor a line, and one beyond the bulk source (64 KiB).
    for (const std::int64_t bytes : {16, 48, 4096, 8208, 65552, 100'000}) {
      for (const BurstMode mode : {BurstMode::isolated, BurstMode::train, BurstMode::periodic, BurstMode::fixed_work}) {
        BurstExperiment experiment = small_experiment();
        experiment.path = path;
        experiment.bytes = bytes;
        experiment.mode = mode;
        experiment.regime = mode == BurstMode::isolated ? Regime::aligned : Regime::free_running;
        const auto samples = node->run(experiment);
        ASSERT_EQ(samples.size(), mode == BurstMode::train ? 20U : 1U);
        for (const BurstSample& sample : samples) {
          EXPECT_TRUE(sample.verified);
          EXPECT_GT(sample.issue_us, 0);
          EXPECT_LE(sample.issue_p5_us, sample.issue_p95_us);
        }
      }
    }
  }
}

TEST(CudaNode, GapsAreAtLeastWhatWasAsked) {
  SKIP_WITHOUT_PEERS();
  const auto node = make_cuda_node();
  for (const GapFiller filler : {GapFiller::spin, GapFiller::memory_reads, GapFiller::tensor_cores}) {
    BurstExperiment experiment = small_experiment();
    experiment.filler = filler;
    experiment.gap_us = 3;
    // A hundredth less for the clock: cycles are counted at the rated clock, and time may run a little faster.
    EXPECT_GT(node->run(experiment).front().gap_us, 2.97) << name_of(filler);
  }
}

TEST(CudaNode, BothWaysReportsBothSources) {
  SKIP_WITHOUT_PEERS();
  const auto node = make_cuda_node();
  BurstExperiment experiment = small_experiment();
  experiment.direction = Direction::both_ways;
  const auto samples = node->run(experiment);
  ASSERT_EQ(samples.size(), 2U);
  EXPECT_EQ(samples[0].experiment.source, 0);
  EXPECT_EQ(samples[1].experiment.source, 1);
  EXPECT_EQ(samples[1].experiment.destinations, std::vector<int>{0});
}

TEST(CudaNode, LinkCountersAgreeWithTheBytesStored) {
  SKIP_WITHOUT_PEERS();
  const auto node = make_cuda_node();
  BurstExperiment experiment = small_experiment();
  experiment.producers = node->describe().devices.front().multiprocessors;
  experiment.bytes = 131072;
  experiment.bursts = 64;
  const BurstSample sample = node->run(experiment).front();
  if (!std::isfinite(sample.link_bytes)) {
    GTEST_SKIP() << "this machine's links are not counted (no NVLink, or NVML without counters)";
  }
  EXPECT_NEAR(sample.link_bytes / sample.stored_bytes, 1, 0.01);
}

TEST(CudaNode, LocalControlNeedsOneGpuOnly) {
  SKIP_WITHOUT_GPU();
  const auto node = make_cuda_node(true);
  BurstExperiment experiment = small_experiment();
  experiment.target = Target::local;
  EXPECT_TRUE(node->run(experiment).front().verified);
}

TEST(CudaNode, RefusesExperimentsThatBreakARule) {
  SKIP_WITHOUT_PEERS();
  const auto node = make_cuda_node();
  const auto refuses = [&](auto change) {
    BurstExperiment experiment = small_experiment();
    change(experiment);
    EXPECT_THROW((void)node->run(experiment), InputError);
  };
  refuses([&](BurstExperiment& e) { e.producers = node->describe().devices.front().multiprocessors + 1; });
  refuses([](BurstExperiment& e) { e.bytes = 4100; });
  refuses([](BurstExperiment& e) { e.bytes = -16; });
  refuses([](BurstExperiment& e) { e.destinations = {7}; });
  refuses([](BurstExperiment& e) { e.threads = 33; });
  refuses([](BurstExperiment& e) { e.bytes = std::int64_t{1} << 33; });  // does not fit the receive buffer
  EXPECT_TRUE(node->run(small_experiment()).front().verified);           // and goes on working
}

TEST(CudaNode, ANodeOfOnePairMeasuresAPoint) {
  SKIP_WITHOUT_PEERS();
  const auto node = make_cuda_node(1, 0);
  BurstExperiment experiment = small_experiment();
  experiment.source = 1;
  experiment.destinations = {0};
  const MeasuredPoint point = measure_point([&](int) -> Node& { return *node; }, experiment, 2);
  EXPECT_EQ(point.experiment.source, 1);
  EXPECT_EQ(point.bursts.front().issue_us.repetitions, 2);
  EXPECT_GT(point.bursts.front().rate_gb_per_s.value, 0);
  EXPECT_GT(point.alone_complete_us.value, point.alone_issue_us.value);
  for (const BurstSample& sample : point.samples) {
    EXPECT_TRUE(sample.verified);
  }
}

TEST(CudaNode, APairIsTwoDevicesThatAreThere) {
  SKIP_WITHOUT_PEERS();
  EXPECT_THROW(static_cast<void>(make_cuda_node(0, cuda::device_count())), InputError);
  EXPECT_THROW(static_cast<void>(make_cuda_node(-1, 0)), InputError);
  EXPECT_THROW(static_cast<void>(make_cuda_node(1, 1)), InputError);
}

TEST(CudaNode, SaysWhenMemoryIsShort) {
  SKIP_WITHOUT_GPU();
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  ASSERT_EQ(cudaMemGetInfo(&free_bytes, &total_bytes), cudaSuccess);
  const cuda::DeviceBuffer hog(0, free_bytes - (std::size_t{256} << 20U), "a test");
  try {
    static_cast<void>(make_cuda_node(true));
    FAIL() << "a node was made in 256 MiB";
  } catch (const DeviceError& error) {
    EXPECT_NE(std::string(error.what()).find("MiB free"), std::string::npos) << error.what();
  }
}

/// One GPU, its own memory: enough for what is tested below the node.
struct LocalLaunch {
  NodeDescription description = describe_cuda_devices();
  std::vector<cuda::LaunchMemory> memory;
  std::unique_ptr<cuda::BurstLauncher> launcher;
  BurstExperiment experiment = small_experiment();

  LocalLaunch() {
    memory.emplace_back(0, description.devices.front().multiprocessors);
    launcher = std::make_unique<cuda::BurstLauncher>(memory, description);
    experiment.target = Target::local;
  }
};

TEST(BurstLauncher, VerificationFindsAPlantedError) {
  SKIP_WITHOUT_GPU();
  LocalLaunch local;
  const auto result = local.launcher->run(local.experiment, {20, 20, 0}, {0}).front();
  EXPECT_EQ(result.mismatched_words, 0U);
  EXPECT_EQ(result.bursts_made, 60);

  cuda::VerifyParameters parameters{};
  parameters.destination = local.memory[0].receive.as<char>();
  parameters.bytes = 4096;
  parameters.stride_bytes = 4096;
  parameters.slots = 20;
  parameters.producers = 3;
  parameters.destination_count = 1;
  parameters.seed = 1;  // of the launcher's first launch
  parameters.payload_has_burst = true;
  parameters.clocks = local.memory[0].clocks.as<cuda::ProducerClock>();
  auto* counter = &local.memory[0].control.as<cuda::Control>()->mismatches;
  const auto mismatches = [&] {
    EXPECT_EQ(cudaMemset(counter, 0, sizeof(*counter)), cudaSuccess);
    EXPECT_EQ(cuda::launch_verify(parameters, counter, local.memory[0].stream.get()), cudaSuccess);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    unsigned long long value = 0;
    EXPECT_EQ(cudaMemcpy(&value, counter, sizeof(value), cudaMemcpyDefault), cudaSuccess);
    return value;
  };
  EXPECT_EQ(mismatches(), 0U);
  ASSERT_EQ(cudaMemset(local.memory[0].receive.as<char>() + 12345 / 4 * 4, 0x5A, 4), cudaSuccess);
  EXPECT_EQ(mismatches(), 1U);
}

TEST(BurstLauncher, AWaitForAPeerThatNeverComesEndsAndSaysSo) {
  SKIP_WITHOUT_GPU();
  LocalLaunch local;
  const cuda::LaunchMemory& memory = local.memory[0];
  memory.control.clear(memory.stream.get());
  auto* control = memory.control.as<cuda::Control>();
  cuda::BurstParameters parameters{};
  parameters.destinations[0] = memory.receive.as<char>();
  parameters.destination_count = 1;
  parameters.bytes = 128;
  parameters.stride_bytes = 128;
  parameters.slots = 1;
  parameters.producers = 2;
  parameters.bursts = 1;
  parameters.train_length = 1;
  parameters.log = memory.log.as<cuda::LoggedBurst>();
  parameters.clocks = memory.clocks.as<cuda::ProducerClock>();
  parameters.barrier = &control->barrier;
  parameters.abort_report = &control->abort_report;
  parameters.sink = &control->sink;
  parameters.own_rendezvous = &control->rendezvous;
  const cuda::DeviceBuffer nobody(0, sizeof(std::uint32_t), "a peer that never answers");
  parameters.peer_rendezvous = nobody.as<std::uint32_t>();
  parameters.timeout_nanosecond = 20'000'000;
  ASSERT_EQ(cuda::launch_bursts(StorePath::store16, parameters, 64, 1024, memory.stream.get()), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(memory.stream.get()), cudaSuccess);
  const auto report = memory.control.read<cuda::Control>(1).front().abort_report;
  EXPECT_EQ(report.raised, 1U);
  EXPECT_EQ(report.site, cuda::WaitSite::peer_rendezvous);
  EXPECT_EQ(report.expected, 1U);
  EXPECT_EQ(report.seen, 0U);
  // The same memory serves the next launch.
  EXPECT_EQ(local.launcher->run(local.experiment, {4, 4, 0}, {0}).front().mismatched_words, 0U);
}

}  // namespace
}  // namespace xstage::cuda_node_test
