#include "node/simulated/placement.hpp"

#include <cstddef>

#include "node/simulated/random.hpp"

namespace xstage::simulated {
namespace {

struct Tpc {
  int first = 0;
  int multiprocessors = 0;  // 2, or 1 at the end of a CPC with an odd number
};

std::vector<Tpc> tpcs_of(const SimulatedHardware& hardware) {
  std::vector<Tpc> tpcs;
  int next = 0;
  for (const auto& gpc : hardware.multiprocessors) {
    for (const int cpc : gpc) {
      for (int i = 0; i < cpc; i += 2) {
        tpcs.push_back({next + i, i + 1 < cpc ? 2 : 1});
      }
      next += cpc;
    }
  }
  return tpcs;
}

}  // namespace

int multiprocessor_count(const SimulatedHardware& hardware) {
  int count = 0;
  for (const auto& gpc : hardware.multiprocessors) {
    for (const int cpc : gpc) {
      count += cpc;
    }
  }
  return count;
}

std::vector<int> place_producers(const SimulatedHardware& hardware, int producers) {
  const std::vector<Tpc> tpcs = tpcs_of(hardware);
  const std::vector<int> order = Random(hardware.placement_seed).permutation(static_cast<int>(tpcs.size()));
  std::vector<int> seats;
  for (int round = 0; round < 2; ++round) {
    for (const int index : order) {
      const Tpc& tpc = tpcs[static_cast<std::size_t>(index)];
      if (round < tpc.multiprocessors && static_cast<int>(seats.size()) < producers) {
        seats.push_back(tpc.first + round);
      }
    }
  }
  return seats;
}

}  // namespace xstage::simulated
