#pragma once
/// A user's choice of what a calibration sweeps.

#include <vector>

#include "calibrate/sweep.hpp"
#include "xstage/calibrate.hpp"

namespace xstage::calibrate {

/// Throws InputError for devices that are not there or are one device, counts beyond the multiprocessors, sizes that
/// are no whole stores of a chosen path, and a path that the node or the quick sweep lacks.
void check_choice(const SweepChoice& choice, const SweepScale& scale, const NodeDescription& node);

/// The sweep of a choice that has lists.
void add_chosen_experiments(const SweepScale& scale, const SweepChoice& choice, ExperimentList& list);

/// Those of the chosen paths, all between the chosen devices.
[[nodiscard]] std::vector<BurstExperiment> narrowed(std::vector<BurstExperiment> experiments,
                                                    const SweepChoice& choice);

/// Those recorded experiments that the choice asks for, and those that no fit can do without. Throws InputError naming
/// a chosen value that none of them has and the values that they have.
[[nodiscard]] std::vector<BurstExperiment> recorded_choice(const std::vector<BurstExperiment>& recorded,
                                                           const SweepChoice& choice);

}  // namespace xstage::calibrate
