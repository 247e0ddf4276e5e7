#pragma once
/// Distance of a simulated node from a measured one: it compares the same experiments, sample by sample.

#include <string>
#include <vector>

#include "xstage/calibrate.hpp"

namespace xstage::calibrate {

/// Key that identifies a sample in a file: the experiment without its number of bursts, and the burst of a train.
[[nodiscard]] std::string key_of(const BurstSample& sample);

/// Relative distances of one quantity. Samples that the preset was tuned on and held-out ones stand apart.
struct DistanceSummary {
  std::string group;     ///< "16-byte stores, periodic, free-running", or "all"
  std::string quantity;  ///< "mean issue time", "slowest producer's issue time", "period" or "time to visibility"
  ErrorStatistics fitted;
  ErrorStatistics held_out;
};

/// Distances of remote samples that both files have: first over all of them, then by group.
[[nodiscard]] std::vector<DistanceSummary> distances(const SamplesFile& measured, const SamplesFile& simulated);

}  // namespace xstage::calibrate
