/// Runs the experiments of a calibration on a node, one after the other.

#include <cstddef>
#include <iterator>
#include <optional>
#include <vector>

#include "calibrate/sweep_choice.hpp"
#include "xstage/calibrate.hpp"
#include "xstage/error.hpp"

namespace xstage {

SamplesFile run_sweep(Node& node, bool quick, const Progress& progress, const SweepChoice& choice) {
  SamplesFile file;
  file.node = node.describe();
  std::optional<std::vector<BurstExperiment>> recorded = node.recorded_experiments();
  if (!recorded) {
    file.node.sweep = !choice.is_default() ? "chosen" : quick ? "quick" : "full";
  }
  const std::vector<BurstExperiment> experiments =
      recorded ? calibrate::recorded_choice(*recorded, choice) : calibration_sweep(file.node, quick, choice);
  for (std::size_t done = 0; done < experiments.size(); ++done) {
    if (progress && !progress(done, experiments.size())) {
      throw Interrupted();
    }
    std::vector<BurstSample> measured = node.run(experiments[done]);
    std::move(measured.begin(), measured.end(), std::back_inserter(file.samples));
  }
  return file;
}

}  // namespace xstage
