#pragma once
/// One experiment on one machine, in the simulation's own units.

#include <cstdint>
#include <vector>

#include "node/simulated/store_pipeline.hpp"
#include "node/simulated/time.hpp"
#include "xstage/node.hpp"
#include "xstage/simulated_node.hpp"

namespace xstage::simulated {

struct BurstPlan {
  int producers = 1;
  std::int64_t bytes = 0;  ///< of one producer and burst
  std::int64_t packets_per_burst = 1;
  StorePathTiming timing;

  bool remote = true;
  Picoseconds take_interval = 0;     ///< between two packets that the arbiter passes on
  Picoseconds packet_time = 0;       ///< on one link
  Picoseconds last_packet_time = 0;  ///< of a burst's last packet, which may be short
  Picoseconds packet_spacing = 0;    ///< between two packets of one SM
  Picoseconds credit_return = 0;
  Picoseconds wire = 0;
  Picoseconds acknowledgement = 0;

  bool aligned = false;  ///< barrier before every burst
  bool loops = false;    ///< producers go on until the simulation stops them
  bool wants_visible = false;
  int train_length = 1;               ///< bursts between two complete drains
  int bursts = 1;                     ///< of one producer; the mean over producers where they loop
  Picoseconds gap = 0;                ///< 0: none is timed
  Picoseconds longest_overshoot = 0;  ///< of a timed gap
  bool reads_memory = false;          ///< the gap ends with a read that queues behind the stores
};

/// `experiment` has passed check_experiment and check_simulation_size.
[[nodiscard]] BurstPlan plan_bursts(const SimulatedHardware& hardware, const BurstExperiment& experiment);

/// Throws InputError for an experiment that would take the simulation minutes or gigabytes.
void check_simulation_size(const BurstExperiment& experiment);

}  // namespace xstage::simulated
