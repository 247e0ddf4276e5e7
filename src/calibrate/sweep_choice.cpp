#include "calibrate/sweep_choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <utility>

#include "xstage/error.hpp"

namespace xstage::calibrate {
namespace {

constexpr int floor_producers = 4;
constexpr double half_of_printed_digit_us = 0.0050001;

template <typename Value>
bool contains(const std::vector<Value>& values, const Value& value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

template <typename Value>
std::vector<Value> chosen_or(const std::vector<Value>& chosen, std::vector<Value> otherwise) {
  return chosen.empty() ? std::move(otherwise) : chosen;
}

std::vector<StorePath> paths_of(const SweepScale& scale, const SweepChoice& choice) {
  if (!choice.paths.empty()) {
    return choice.paths;
  }
  if (scale.quick) {
    return {StorePath::store16};
  }
  std::vector<StorePath> paths{StorePath::store16, StorePath::store8, StorePath::store4};
  if (scale.has_bulk) {
    paths.push_back(StorePath::bulk);
  }
  return paths;
}

std::vector<std::int64_t> kibibytes(std::vector<std::int64_t> sizes) {
  std::transform(sizes.begin(), sizes.end(), sizes.begin(), [](std::int64_t size) { return size * kibibyte; });
  return sizes;
}

/// Sizes around the knee of any producer count.
std::vector<std::int64_t> default_sizes(const SweepScale& scale) {
  return scale.quick ? kibibytes({4, 8, 16, 24, 32, 64, 128})
                     : kibibytes({1, 2, 4, 8, 12, 16, 20, 24, 32, 48, 64, 80, 128});
}

void add_path(const SweepScale& scale, const SweepChoice& choice, StorePath path, ExperimentList& list) {
  const std::vector<int> counts =
      chosen_or(choice.producers, {1, scale.fraction(4), scale.fraction(2), scale.multiprocessors});
  const std::vector<std::int64_t> sizes = chosen_or(choice.bytes, default_sizes(scale));
  const auto saturate = [&](int producers, std::int64_t bytes) {
    list.add(periodic(scale, path, Regime::free_running, producers, bytes, 0));
  };
  for (const std::int64_t bytes : kibibytes({8, 32, 128})) {
    for (const int producers : {1, std::min(floor_producers, scale.multiprocessors), scale.multiprocessors}) {
      saturate(producers, bytes);
    }
  }
  for (const std::int64_t bytes : default_sizes(scale)) {
    list.add(isolated(path, std::min(floor_producers, scale.multiprocessors), bytes));
  }
  for (const std::int64_t bytes : sizes) {
    list.add(isolated(path, std::min(floor_producers, scale.multiprocessors), bytes));
    for (const int producers : counts) {
      saturate(producers, bytes);
      list.add(isolated(path, producers, bytes));
    }
  }
}

/// What the profile is checked with.
void add_held_out(const SweepScale& scale, const SweepChoice& choice, StorePath path, ExperimentList& list) {
  for (const Regime regime : chosen_or(choice.regimes, {Regime::free_running, Regime::aligned})) {
    for (const int producers : chosen_or(choice.producers, {scale.multiprocessors})) {
      for (const std::int64_t bytes : chosen_or(choice.bytes, kibibytes({24, 48}))) {
        const double drain_us = scale.drain_time_us(producers, bytes);
        const std::vector<double> shares{0.5 * drain_us, 0.75 * drain_us, drain_us, 1.25 * drain_us, 2 * drain_us};
        for (const double gap_us : chosen_or(choice.gaps_us, shares)) {
          BurstExperiment experiment = periodic(scale, path, regime, producers, bytes, gap_us);
          experiment.held_out = true;
          list.add(experiment);
        }
      }
    }
  }
}

void require_device(int device, const char* role, const NodeDescription& node) {
  if (device < 0 || static_cast<std::size_t>(device) >= node.devices.size()) {
    throw InputError(fmt::format("{} {}: the node has {} devices, numbered from 0", role, device, node.devices.size()));
  }
}

template <typename Value, typename Read, typename Same>
void require_recorded(const char* what, const std::vector<Value>& chosen, const std::vector<BurstExperiment>& recorded,
                      Read read, Same same) {
  for (const Value& value : chosen) {
    if (std::any_of(recorded.begin(), recorded.end(),
                    [&](const BurstExperiment& experiment) { return same(read(experiment), value); })) {
      continue;
    }
    std::vector<Value> there;
    std::transform(recorded.begin(), recorded.end(), std::back_inserter(there), read);
    std::sort(there.begin(), there.end());
    there.erase(std::unique(there.begin(), there.end()), there.end());
    std::string list;
    for (const Value& other : there) {
      list += fmt::format("{}{}", list.empty() ? "" : ", ", other);
    }
    throw InputError(fmt::format("{} {}: not among the recorded ones, {}", what, value, list));
  }
}

bool same_gap(double one, double other) { return std::abs(one - other) <= half_of_printed_digit_us; }

/// Saturation of all producers and bursts of few: R and T_iss0.
bool is_indispensable(const BurstExperiment& experiment, int most_producers) {
  const bool saturates = experiment.mode == BurstMode::periodic && experiment.gap_us == 0 &&
                         experiment.regime == Regime::free_running &&
                         (experiment.producers == most_producers || experiment.producers <= floor_producers);
  const bool floor = experiment.mode == BurstMode::isolated && experiment.producers <= floor_producers;
  return !experiment.held_out && experiment.target == Target::remote && (saturates || floor);
}

bool is_chosen(const BurstExperiment& experiment, const SweepChoice& choice) {
  const auto among = [](const auto& values, const auto& value) { return values.empty() || contains(values, value); };
  const bool gap = choice.gaps_us.empty() || !experiment.held_out ||
                   std::any_of(choice.gaps_us.begin(), choice.gaps_us.end(),
                               [&](double chosen) { return same_gap(chosen, experiment.gap_us); });
  const bool regime = !experiment.held_out || among(choice.regimes, experiment.regime);
  return among(choice.producers, experiment.producers) && among(choice.bytes, experiment.bytes) && gap && regime;
}

bool is_of_path(const BurstExperiment& experiment, const SweepChoice& choice) {
  return choice.paths.empty() || contains(choice.paths, experiment.path);
}

int destination_of(const SweepChoice& choice) {
  return choice.destination.value_or(choice.source.value_or(0) == 0 ? 1 : 0);
}

int source_of(const SweepChoice& choice) { return choice.source.value_or(destination_of(choice) == 0 ? 1 : 0); }

bool has_pair(const SweepChoice& choice) { return choice.source || choice.destination; }

}  // namespace

void check_choice(const SweepChoice& choice, const SweepScale& scale, const NodeDescription& node) {
  if (has_pair(choice)) {
    require_device(source_of(choice), "source", node);
    require_device(destination_of(choice), "destination", node);
    if (source_of(choice) == destination_of(choice)) {
      throw InputError(
          fmt::format("source {} and destination {}: must be two devices", source_of(choice), destination_of(choice)));
    }
  }
  for (const StorePath path : choice.paths) {
    if (path == StorePath::bulk && !scale.has_bulk) {
      throw InputError("path bulk: needs compute capability 9.0 on every device");
    }
    if (path != StorePath::store16 && scale.quick) {
      throw InputError(fmt::format("path {}: the quick sweep has store16 only", name_of(path)));
    }
  }
  for (const StorePath path : paths_of(scale, choice)) {
    for (const int producers : chosen_or(choice.producers, {1})) {
      for (const std::int64_t bytes : chosen_or(choice.bytes, {kibibyte})) {
        for (const double gap_us : chosen_or(choice.gaps_us, {0})) {
          BurstExperiment experiment;
          experiment.path = path;
          experiment.producers = producers;
          experiment.bytes = bytes;
          experiment.gap_us = gap_us;
          check_experiment(experiment, node);
        }
      }
    }
  }
}

void add_chosen_experiments(const SweepScale& scale, const SweepChoice& choice, ExperimentList& list) {
  for (const StorePath path : paths_of(scale, choice)) {
    add_path(scale, choice, path, list);
  }
  for (const StorePath path : paths_of(scale, choice)) {
    add_held_out(scale, choice, path, list);
  }
}

std::vector<BurstExperiment> narrowed(std::vector<BurstExperiment> experiments, const SweepChoice& choice) {
  std::erase_if(experiments, [&](const BurstExperiment& experiment) { return !is_of_path(experiment, choice); });
  if (has_pair(choice)) {
    for (BurstExperiment& experiment : experiments) {
      experiment.source = source_of(choice);
      experiment.destinations = {destination_of(choice)};
    }
  }
  return experiments;
}

std::vector<BurstExperiment> recorded_choice(const std::vector<BurstExperiment>& recorded, const SweepChoice& choice) {
  if (choice.is_default()) {
    return recorded;
  }
  const auto equal = [](const auto& one, const auto& other) { return one == other; };
  std::vector<std::string> paths;
  std::transform(choice.paths.begin(), choice.paths.end(), std::back_inserter(paths),
                 [](StorePath path) { return std::string(name_of(path)); });
  require_recorded(
      "path", paths, recorded, [](const BurstExperiment& experiment) { return std::string(name_of(experiment.path)); },
      equal);
  require_recorded(
      "producers", choice.producers, recorded, [](const BurstExperiment& experiment) { return experiment.producers; },
      equal);
  require_recorded(
      "bytes", choice.bytes, recorded, [](const BurstExperiment& experiment) { return experiment.bytes; }, equal);
  require_recorded(
      "gap_us", choice.gaps_us, recorded, [](const BurstExperiment& experiment) { return experiment.gap_us; },
      same_gap);
  const int most = std::max_element(recorded.begin(), recorded.end(), [](const auto& one, const auto& other) {
                     return one.producers < other.producers;
                   })->producers;
  std::vector<BurstExperiment> chosen;
  std::copy_if(recorded.begin(), recorded.end(), std::back_inserter(chosen), [&](const BurstExperiment& experiment) {
    const bool pair = !has_pair(choice) || (experiment.source == source_of(choice) &&
                                            experiment.destinations == std::vector<int>{destination_of(choice)});
    return pair && is_of_path(experiment, choice) &&
           (is_chosen(experiment, choice) || is_indispensable(experiment, most));
  });
  if (chosen.empty()) {
    throw InputError(fmt::format("the recorded samples hold nothing from device {} to device {} of the chosen paths",
                                 source_of(choice), destination_of(choice)));
  }
  return chosen;
}

}  // namespace xstage::calibrate
