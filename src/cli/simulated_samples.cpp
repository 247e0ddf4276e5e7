#include "cli/simulated_samples.hpp"

#include <fmt/format.h>

#include "calibrate/node_distance.hpp"
#include "calibrate/parallel_sweep.hpp"
#include "cli/quantities.hpp"
#include "cli/table.hpp"
#include "cli/wording.hpp"
#include "xstage/simulated_node.hpp"

namespace xstage::cli {

namespace {

std::string count_text(const ErrorStatistics& errors) {
  return errors.samples == 0 ? "-" : std::to_string(errors.samples);
}

std::string error_text(const ErrorStatistics& errors, double error) {
  return errors.samples == 0 ? "-" : percent(error);
}

}  // namespace

SamplesFile simulated_samples(const std::string& preset_or_file, const SamplesFile& measured) {
  return calibrate::run_remote_sweep_in_parallel([&] { return make_simulated_node(preset_or_file); },
                                                 measured.node.sweep == "quick");
}

void print_distances(std::ostream& out, const SamplesFile& measured, const SamplesFile& simulated) {
  out << "Simulated " << node_line(simulated.node) << "\nSimulated against measured samples\n\n";
  Table table({"samples of", "distance in", "fitted\nsamples", "\nmedian", "\nworst", "held out\nsamples", "\nmedian",
               "\nworst"});
  table.left_align(2);
  for (const calibrate::DistanceSummary& distance : calibrate::distances(measured, simulated)) {
    const ErrorStatistics& fitted = distance.fitted;
    const ErrorStatistics& held_out = distance.held_out;
    table.add_row({distance.group, distance.quantity, count_text(fitted), error_text(fitted, fitted.median),
                   error_text(fitted, fitted.worst), count_text(held_out), error_text(held_out, held_out.median),
                   error_text(held_out, held_out.worst)});
  }
  table.print(out);
}

}  // namespace xstage::cli
