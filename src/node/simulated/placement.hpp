#pragma once
/// Chooses the SM of each producer.

#include <vector>

#include "xstage/simulated_node.hpp"

namespace xstage::simulated {

/// CTAs go to empty TPCs first and then to the second SM of each TPC, in an order without visible pattern, here a
/// shuffled one. Two neighbours in a CPC form a TPC. Requires at most as many producers as SMs.
[[nodiscard]] std::vector<int> place_producers(const SimulatedHardware& hardware, int producers);

[[nodiscard]] int multiprocessor_count(const SimulatedHardware& hardware);

}  // namespace xstage::simulated
