#pragma once
/// Which SM each producer runs on.

#include <vector>

#include "xstage/simulated_node.hpp"

namespace xstage::simulated {

/// CTAs go to empty TPCs first and then to their second SMs, in an order without visible pattern: here a shuffled one.
/// Two neighbours in a CPC form a TPC. Requires at most as many producers as SMs.
[[nodiscard]] std::vector<int> place_producers(const SimulatedHardware& hardware, int producers);

[[nodiscard]] int multiprocessor_count(const SimulatedHardware& hardware);

}  // namespace xstage::simulated
