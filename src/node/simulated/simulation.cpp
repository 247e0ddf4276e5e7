#include "node/simulated/simulation.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>

#include "node/simulated/burst_plan.hpp"
#include "node/simulated/links.hpp"
#include "node/simulated/source_device.hpp"

namespace xstage::simulated {
namespace {

/// A window in which all producers run needs at least this many bursts of the slowest producer.
constexpr int fewest_bursts_of_slowest = 6;

struct Route {
  int source;
  std::vector<int> destinations;
};

std::vector<Route> routes_of(const BurstExperiment& experiment) {
  if (experiment.target == Target::local) {
    return {{experiment.source, {experiment.source}}};
  }
  std::vector<Route> routes{{experiment.source, experiment.destinations}};
  if (experiment.direction == Direction::both_ways) {
    for (const int destination : experiment.destinations) {
      routes.push_back({destination, {experiment.source}});
    }
  }
  return routes;
}

class Simulation {
 public:
  Simulation(const SimulatedHardware& hardware, const BurstPlan& plan, const std::vector<Route>& routes)
      : plan_(plan), arrivals_(static_cast<std::size_t>(hardware.devices), Links(hardware.links)) {
    for (const Route& route : routes) {
      const std::uint64_t seed = hardware.seed + static_cast<std::uint64_t>(route.source);
      devices_.push_back(std::make_unique<SourceDevice>(hardware, plan, route.destinations, seed, arrivals_));
    }
  }

  void run() {
    bool stopped = !plan_.loops;
    while (SourceDevice* device = next_device()) {
      device->step();
      if (!stopped && enough(*device) && all_enough()) {
        stopped = true;
        for (const auto& each : devices_) {
          each->stop();
        }
      }
    }
  }

  [[nodiscard]] const std::vector<std::unique_ptr<SourceDevice>>& devices() const { return devices_; }

 private:
  /// The device with the earliest event; null when all are done.
  [[nodiscard]] SourceDevice* next_device() const {
    SourceDevice* earliest = nullptr;
    Picoseconds time = never;
    for (const auto& device : devices_) {
      const Picoseconds candidate = device->next_time();
      if (candidate < time) {
        time = candidate;
        earliest = device.get();
      }
    }
    return earliest;
  }

  [[nodiscard]] bool enough(const SourceDevice& device) const {
    return device.bursts_ended() >= static_cast<std::int64_t>(plan_.bursts) * plan_.producers &&
           device.fewest_bursts_ended() >= fewest_bursts_of_slowest;
  }

  [[nodiscard]] bool all_enough() const {
    return std::all_of(devices_.begin(), devices_.end(), [this](const auto& device) { return enough(*device); });
  }

  BurstPlan plan_;
  std::vector<Links> arrivals_;
  std::vector<std::unique_ptr<SourceDevice>> devices_;
};

}  // namespace

SimulationResult simulate(const SimulatedHardware& hardware, const BurstExperiment& experiment) {
  const BurstPlan plan = plan_bursts(hardware, experiment);
  const std::vector<Route> routes = routes_of(experiment);
  Simulation simulation(hardware, plan, routes);
  simulation.run();
  SimulationResult result;
  result.train_length = plan.train_length;
  for (std::size_t i = 0; i < routes.size(); ++i) {
    const SourceDevice& device = *simulation.devices()[i];
    result.sources.push_back(
        {routes[i].source, routes[i].destinations, device.trace(), device.bytes_stored(), device.bytes_delivered()});
  }
  return result;
}

}  // namespace xstage::simulated
