/// The simulated node: it takes experiments, runs the simulation, and returns samples.

#include "xstage/simulated_node.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "node/burst_trace.hpp"
#include "node/simulated/burst_plan.hpp"
#include "node/simulated/placement.hpp"
#include "node/simulated/simulation.hpp"
#include "xstage/error.hpp"
#include "xstage/files.hpp"

namespace xstage {
namespace {

class SimulatedNode final : public Node {
 public:
  explicit SimulatedNode(SimulatedHardware hardware) : hardware_(std::move(hardware)) {}

  [[nodiscard]] NodeDescription describe() const override {
    NodeDescription node;
    node.kind = "simulated";
    node.name = hardware_.name;
    node.devices.assign(static_cast<std::size_t>(hardware_.devices),
                        Device{hardware_.device_name, simulated::multiprocessor_count(hardware_),
                               hardware_.compute_capability, hardware_.memory_bytes, hardware_.clock_mhz});
    node.links = fmt::format("{} NVLink, {:.2f} GB/s each", hardware_.links, hardware_.link_gb_per_s);
    return node;
  }

  [[nodiscard]] std::vector<BurstSample> run(const BurstExperiment& experiment) override {
    check_experiment(experiment, describe());
    simulated::check_simulation_size(experiment);
    const simulated::SimulationResult result = simulated::simulate(hardware_, experiment);
    std::vector<BurstSample> samples;
    for (const simulated::SourceResult& source : result.sources) {
      BurstExperiment stored = experiment;
      stored.source = source.source;
      if (experiment.target == Target::remote) {
        stored.destinations = source.destinations;
      }
      for (BurstSample& sample : summarise(stored, result.train_length, {source.trace})) {
        sample.verified = source.bytes_delivered == source.bytes_stored;
        if (experiment.target == Target::remote) {
          sample.link_bytes = sample.stored_bytes * static_cast<double>(source.bytes_delivered) /
                              static_cast<double>(source.bytes_stored);
        }
        samples.push_back(std::move(sample));
      }
    }
    return samples;
  }

 private:
  SimulatedHardware hardware_;
};

}  // namespace

std::unique_ptr<Node> make_simulated_node(const SimulatedHardware& hardware) {
  return std::make_unique<SimulatedNode>(hardware);
}

std::unique_ptr<Node> make_simulated_node(std::string_view preset_or_json_path) {
  const std::vector<std::string> presets = simulated_presets();
  if (std::find(presets.begin(), presets.end(), preset_or_json_path) != presets.end()) {
    return make_simulated_node(simulated_preset(preset_or_json_path));
  }
  const std::filesystem::path path(preset_or_json_path);
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    throw InputError(fmt::format("simulated node '{}': neither a file nor a preset ({})", preset_or_json_path,
                                 fmt::join(presets, ", ")));
  }
  return make_simulated_node(parse_simulated_hardware(read_text(path), preset_or_json_path));
}

}  // namespace xstage
