#pragma once
/// Runs one experiment: all storing devices together, in the order of their events.

#include <cstdint>
#include <vector>

#include "node/burst_trace.hpp"
#include "xstage/node.hpp"
#include "xstage/simulated_node.hpp"

namespace xstage::simulated {

/// What one storing device did.
struct SourceResult {
  int source = 0;
  std::vector<int> destinations;
  BurstTrace trace;
  std::int64_t bytes_stored = 0;
  std::int64_t bytes_delivered = 0;
};

struct SimulationResult {
  int train_length = 1;  ///< as summarise() wants it
  std::vector<SourceResult> sources;
};

/// `experiment` has passed check_experiment and check_simulation_size.
[[nodiscard]] SimulationResult simulate(const SimulatedHardware& hardware, const BurstExperiment& experiment);

}  // namespace xstage::simulated
