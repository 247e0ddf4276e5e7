#pragma once
/// Which SM each producer runs on.

#include <vector>

#include "xstage/simulated_node.hpp"

namespace xstage::simulated {

struct Seat {
  int multiprocessor = 0;
  bool shares_tpc = false;  ///< the other SM of its TPC has a producer too
};

/// CTAs go to empty TPCs first and then to their second SMs, in an order without visible pattern: here a shuffled one.
/// Two neighbours in a CPC form a TPC. Requires at most as many producers as SMs.
[[nodiscard]] std::vector<Seat> place_producers(const SimulatedHardware& hardware, int producers);

[[nodiscard]] int multiprocessor_count(const SimulatedHardware& hardware);

}  // namespace xstage::simulated
