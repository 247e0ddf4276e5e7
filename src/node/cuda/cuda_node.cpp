// The CUDA node: experiments on all GPUs of this process that reach each other.

#include "xstage/cuda_node.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "node/burst_trace.hpp"
#include "node/cuda/burst_kernel.hpp"
#include "node/cuda/burst_launch.hpp"
#include "node/cuda/discovery.hpp"
#include "xstage/error.hpp"

namespace xstage {
namespace cuda {
namespace {

constexpr int trials_per_experiment = 3;
constexpr int trains_per_launch = 8;
/// Shortest free-running run: long compared with the start-up transient and the timer's tick.
constexpr double shortest_run_us = 400;
constexpr double warm_up_ms = 2;
constexpr double first_warm_up_ms = 300;

void enable_peer_access(int from, int to) {
  const CurrentDevice current(from);
  const cudaError_t status = cudaDeviceEnablePeerAccess(to, 0);
  if (status == cudaErrorPeerAccessAlreadyEnabled) {
    static_cast<void>(cudaGetLastError());
    return;
  }
  check(status, fmt::format("enabling access from GPU {} to the memory of GPU {}", from, to));
}

double mean_period_us(const BurstTrace& trace) {
  double sum = 0;
  for (const auto& producer : trace.producers) {
    sum += (producer.back().start_us - producer.front().start_us) / static_cast<double>(producer.size() - 1);
  }
  return sum / static_cast<double>(trace.producers.size());
}

class CudaNode final : public Node {
 public:
  enum class Peers { none, every_pair, one_pair };

  explicit CudaNode(Peers peers, int source = 0, int destination = 1)
      : management_(ManagementLibrary::load()), description_(cuda::describe(management_.get())) {
    if (peers == Peers::every_pair) {
      require_every_pair();
    } else if (peers == Peers::one_pair) {
      require_pair(source, destination);
    }
    if (peers != Peers::none) {
      enable_reachable_peers();
    }
    const int count = static_cast<int>(description_.devices.size());
    for (int device = 0; device < count; ++device) {
      memory_.emplace_back(device, description_.devices[static_cast<std::size_t>(device)].multiprocessors);
      bus_ids_.push_back(pci_bus_id(device));
    }
    launcher_ = std::make_unique<BurstLauncher>(memory_, description_);
    warm_up(first_warm_up_ms);
  }

  [[nodiscard]] NodeDescription describe() const override { return description_; }

  [[nodiscard]] std::vector<BurstSample> run(const BurstExperiment& experiment) override {
    check_experiment(experiment, description_);
    check_bulk_support(experiment);
    check_reach(experiment);
    const std::vector<int> sources = sources_of(experiment);
    const LaunchPlan plan = plan_launch(experiment, sources);
    warm_up(warm_up_ms);

    std::vector<std::vector<BurstTrace>> traces(sources.size());
    std::vector<double> bytes_launched(sources.size(), 0);
    const std::vector<double> counted_before = transmitted(sources);
    for (int trial = 0; trial < trials_per_experiment; ++trial) {
      std::vector<LaunchResult> results = launcher_->run(experiment, plan, sources);
      for (std::size_t index = 0; index < sources.size(); ++index) {
        require_payload(experiment, results[index], sources[index]);
        bytes_launched[index] +=
            static_cast<double>(results[index].bursts_made) * static_cast<double>(experiment.bytes);
        traces[index].push_back(std::move(results[index].trace));
      }
    }
    const std::vector<double> counted_after = transmitted(sources);

    std::vector<BurstSample> samples;
    for (std::size_t index = 0; index < sources.size(); ++index) {
      const double counted_per_byte = (counted_after[index] - counted_before[index]) / bytes_launched[index];
      for (BurstSample& sample : summarise(experiment, plan.train_length, traces[index])) {
        sample.experiment.source = sources[index];
        if (sources.size() == 2) {
          sample.experiment.destinations = {sources[1 - index]};
        }
        sample.link_bytes = counted_per_byte * sample.stored_bytes;
        sample.verified = true;
        samples.push_back(std::move(sample));
      }
    }
    return samples;
  }

 private:
  void require_two_devices() const {
    if (description_.devices.size() < 2) {
      throw DeviceError("stores to a peer need two GPUs: only one is visible");
    }
  }

  void require_every_pair() const {
    require_two_devices();
    const std::string missing = missing_peer_access();
    if (!missing.empty()) {
      throw DeviceError(fmt::format("GPUs without peer access (NVLink or PCIe peer-to-peer is needed):\n{}", missing));
    }
  }

  void require_pair(int source, int destination) const {
    require_two_devices();
    const int count = static_cast<int>(description_.devices.size());
    for (const int device : {source, destination}) {
      if (device < 0 || device >= count) {
        throw InputError(fmt::format("device {}: this machine has {} GPUs, numbered from 0", device, count));
      }
    }
    if (source == destination) {
      throw InputError(fmt::format("device {}: is both source and destination; a pair is two GPUs", source));
    }
    require_reach(source, destination);
  }

  static void require_reach(int source, int destination) {
    if (!can_reach(source, destination)) {
      throw DeviceError(fmt::format("GPU {} cannot reach the memory of GPU {} (NVLink or PCIe peer-to-peer is needed)",
                                    source, destination));
    }
  }

  /// Of a node that was made for one pair, other pairs may be out of reach.
  static void check_reach(const BurstExperiment& experiment) {
    if (experiment.target == Target::local) {
      return;
    }
    for (const int destination : experiment.destinations) {
      require_reach(experiment.source, destination);
      if (experiment.direction == Direction::both_ways) {
        require_reach(destination, experiment.source);
      }
    }
  }

  void enable_reachable_peers() const {
    const int count = static_cast<int>(description_.devices.size());
    for (int from = 0; from < count; ++from) {
      for (int to = 0; to < count; ++to) {
        if (from != to && can_reach(from, to)) {
          enable_peer_access(from, to);
        }
      }
    }
  }

  void check_bulk_support(const BurstExperiment& experiment) const {
    const Device& device = description_.devices[static_cast<std::size_t>(experiment.source)];
    if (experiment.path == StorePath::bulk && device.compute_capability < 90) {
      throw InputError(fmt::format("bulk stores need compute capability 9.0: GPU {} ({}) has {}.{}", experiment.source,
                                   device.name, device.compute_capability / 10, device.compute_capability % 10));
    }
  }

  static std::vector<int> sources_of(const BurstExperiment& experiment) {
    if (experiment.direction == Direction::one_way) {
      return {experiment.source};
    }
    return {experiment.source, experiment.destinations.front()};
  }

  /// Plans a launch. Free-running periodic experiments run for a time, not for a number of bursts; a short pilot run
  /// gives the number.
  LaunchPlan plan_launch(const BurstExperiment& experiment, const std::vector<int>& sources) {
    LaunchPlan plan;
    if (experiment.mode == BurstMode::isolated) {
      plan = {std::min(experiment.bursts, maximum_bursts), 1, 0};
    } else if (experiment.mode == BurstMode::train) {
      plan = {std::min(experiment.bursts * trains_per_launch, maximum_bursts), experiment.bursts, 0};
      plan.bursts -= plan.bursts % plan.train_length;
    } else if (experiment.regime == Regime::aligned || experiment.mode == BurstMode::fixed_work) {
      plan.bursts = std::clamp(experiment.bursts, 8, maximum_bursts);
      plan.train_length = plan.bursts;
    } else {
      constexpr int pilot_bursts = 12;
      const double period_us =
          mean_period_us(launcher_->run(experiment, {pilot_bursts, pilot_bursts, 0}, sources).front().trace);
      plan.stop_us = std::max(shortest_run_us, std::max(experiment.bursts, 16) * period_us);
      // Twice the mean number of bursts, since favoured producers make more bursts in the same time.
      plan.bursts = static_cast<int>(std::clamp(2 * plan.stop_us / period_us, 16.0, double{maximum_bursts}));
      plan.train_length = plan.bursts;
    }
    return plan;
  }

  static void require_payload(const BurstExperiment& experiment, const LaunchResult& result, int source) {
    if (result.mismatched_words != 0) {
      throw DeviceError(fmt::format(
          "{} words stored by GPU {} ({} producers x {} bytes, {}) arrived wrong or not at all",
          result.mismatched_words, source, experiment.producers, experiment.bytes, name_of(experiment.path)));
    }
  }

  [[nodiscard]] std::vector<double> transmitted(const std::vector<int>& sources) const {
    std::vector<double> bytes;
    for (const int source : sources) {
      const auto counted = management_ == nullptr
                               ? std::nullopt
                               : management_->transmitted_bytes(bus_ids_[static_cast<std::size_t>(source)]);
      bytes.push_back(counted.value_or(not_measured));
    }
    return bytes;
  }

  void warm_up(double milliseconds) {
    for (LaunchMemory& memory : memory_) {
      const CurrentDevice current(memory.device);
      const int blocks = description_.devices[static_cast<std::size_t>(memory.device)].multiprocessors;
      check(launch_warm_up(milliseconds, blocks, memory.stream.get()), "warming up");
    }
    for (LaunchMemory& memory : memory_) {
      check(cudaStreamSynchronize(memory.stream.get()), "warming up");
    }
  }

  std::unique_ptr<ManagementLibrary> management_;
  NodeDescription description_;
  std::vector<LaunchMemory> memory_;
  std::vector<std::string> bus_ids_;
  std::unique_ptr<BurstLauncher> launcher_;
};

}  // namespace
}  // namespace cuda

std::unique_ptr<Node> make_cuda_node(bool single_device) {
  using Peers = cuda::CudaNode::Peers;
  return std::make_unique<cuda::CudaNode>(single_device ? Peers::none : Peers::every_pair);
}

std::unique_ptr<Node> make_cuda_node(int source, int destination) {
  return std::make_unique<cuda::CudaNode>(cuda::CudaNode::Peers::one_pair, source, destination);
}

}  // namespace xstage
