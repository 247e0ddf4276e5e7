#pragma once
// One launch of the burst kernel: it derives parameters from an experiment, runs, verifies, and returns a trace.

#include <cstdint>
#include <vector>

#include "node/burst_trace.hpp"
#include "node/cuda/launch_memory.hpp"
#include "xstage/node.hpp"

namespace xstage::cuda {

/// How an experiment maps to one launch.
struct LaunchPlan {
  int bursts = 1;        // log entries per producer
  int train_length = 1;  // bursts between two complete drains
  double stop_us = 0;    // free-running periodic: stop starting bursts after this time; 0: make all bursts
};

struct LaunchResult {
  BurstTrace trace;
  std::int64_t bursts_made = 0;  // over all producers
  std::uint64_t mismatched_words = 0;
};

class BurstLauncher {
 public:
  /// `memory` holds one entry per device. The launcher does not own it.
  BurstLauncher(std::vector<LaunchMemory>& memory, const NodeDescription& node);

  /// Runs `experiment` from `sources` at once (two of them for both_ways, each storing to the other).
  [[nodiscard]] std::vector<LaunchResult> run(const BurstExperiment& experiment, const LaunchPlan& plan,
                                              const std::vector<int>& sources);

 private:
  struct Prepared;
  [[nodiscard]] Prepared prepare(const BurstExperiment& experiment, const LaunchPlan& plan, int source, int partner);
  void start(const BurstExperiment& experiment, const Prepared& prepared);
  [[nodiscard]] LaunchResult finish(const BurstExperiment& experiment, const Prepared& prepared);
  [[nodiscard]] std::uint64_t verify(const BurstExperiment& experiment, const Prepared& prepared,
                                     const std::vector<ProducerClock>& clocks);

  std::vector<LaunchMemory>* memory_;
  NodeDescription node_;
  std::vector<int> shared_bytes_limit_;  // [devices]
  std::uint32_t seed_ = 1;
};

}  // namespace xstage::cuda
