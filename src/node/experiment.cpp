/// Names of the experiment's enumerations, and the rules that every node's experiments obey.

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "xstage/error.hpp"
#include "xstage/node.hpp"

namespace xstage {
namespace {

template <typename Enum>
struct Names;

template <>
struct Names<StorePath> {
  static constexpr std::string_view what = "store path";
  static constexpr auto list = store_path_names;
};
template <>
struct Names<BurstMode> {
  static constexpr std::string_view what = "burst mode";
  static constexpr std::array<std::string_view, 4> list{"isolated", "train", "periodic", "fixed_work"};
};
template <>
struct Names<Regime> {
  static constexpr std::string_view what = "regime";
  static constexpr std::array<std::string_view, 2> list{"aligned", "free_running"};
};
template <>
struct Names<Target> {
  static constexpr std::string_view what = "target";
  static constexpr std::array<std::string_view, 2> list{"remote", "local"};
};
template <>
struct Names<Direction> {
  static constexpr std::string_view what = "direction";
  static constexpr std::array<std::string_view, 2> list{"one_way", "both_ways"};
};
template <>
struct Names<GapFiller> {
  static constexpr std::string_view what = "gap filler";
  static constexpr std::array<std::string_view, 3> list{"spin", "memory_reads", "tensor_cores"};
};

/// Enumerators are listed in the order of their values, so the value is the index.
template <typename Enum>
std::string_view name_in_list(Enum value) {
  const auto index = static_cast<std::size_t>(value);
  if (index >= Names<Enum>::list.size()) {
    throw InputError(fmt::format("{} {}: not one of {}", Names<Enum>::what, index, fmt::join(Names<Enum>::list, ", ")));
  }
  return Names<Enum>::list[index];
}

void require(bool holds, const std::string& message) {
  if (!holds) {
    throw InputError(message);
  }
}

void check_device(int device, std::string_view role, const NodeDescription& node) {
  require(device >= 0 && static_cast<std::size_t>(device) < node.devices.size(),
          fmt::format("{} {}: the node has {} device(s), numbered from 0", role, device, node.devices.size()));
}

void check_remote_destinations(const BurstExperiment& experiment, const NodeDescription& node) {
  require(node.devices.size() >= 2,
          fmt::format("devices {}: stores to a peer need at least 2 (a local target needs 1)", node.devices.size()));
  require(!experiment.destinations.empty(), "destinations: a remote target needs at least one");
  for (std::size_t i = 0; i < experiment.destinations.size(); ++i) {
    const int destination = experiment.destinations[i];
    check_device(destination, "destination", node);
    require(
        destination != experiment.source,
        fmt::format("destination {}: equals the source; use a local target for stores to its own memory", destination));
    const auto first = experiment.destinations.begin();
    require(
        std::find(first, first + static_cast<std::ptrdiff_t>(i), destination) == first + static_cast<std::ptrdiff_t>(i),
        fmt::format("destination {}: listed twice", destination));
  }
}

/// Checks that K is within the SMs of every device that stores: the source, and with both_ways the destinations.
void check_producers(const BurstExperiment& experiment, const NodeDescription& node) {
  require(experiment.producers >= 1, fmt::format("producers {}: at least 1", experiment.producers));
  const auto check_fits = [&](int device) {
    const int multiprocessors = node.devices[static_cast<std::size_t>(device)].multiprocessors;
    require(experiment.producers <= multiprocessors,
            fmt::format("producers {}: device {} has {} multiprocessors, and each takes one producer",
                        experiment.producers, device, multiprocessors));
  };
  check_fits(experiment.source);
  if (experiment.target == Target::remote && experiment.direction == Direction::both_ways) {
    std::for_each(experiment.destinations.begin(), experiment.destinations.end(), check_fits);
  }
}

/// Bursts and trials multiply in 64-bit byte counts; one experiment never needs more than this.
constexpr std::int64_t largest_total_bytes = std::int64_t{1} << 50;

void check_bytes(const BurstExperiment& experiment) {
  const int width = store_width_bytes(experiment.path);
  require(experiment.bytes >= 1, fmt::format("bytes {}: at least {} per producer and burst", experiment.bytes, width));
  require(experiment.bytes % width == 0, fmt::format("bytes {}: not divisible by {}, the store width of {}",
                                                     experiment.bytes, width, name_of(experiment.path)));
  require(experiment.bursts >= 1, fmt::format("bursts {}: at least 1", experiment.bursts));
  require(experiment.bytes <= largest_total_bytes / experiment.producers / experiment.bursts,
          fmt::format("bytes {} x producers {} x bursts {}: more than 2^50 bytes in one experiment", experiment.bytes,
                      experiment.producers, experiment.bursts));
}

void check_regime(const BurstExperiment& experiment) {
  require(experiment.mode != BurstMode::fixed_work || experiment.regime == Regime::free_running,
          "mode fixed_work with regime aligned: a barrier keeps all producers in step, use periodic");
}

void check_threads_and_gap(const BurstExperiment& experiment) {
  require(experiment.threads >= 32 && experiment.threads <= 1024 && experiment.threads % 32 == 0,
          fmt::format("threads {}: a multiple of 32 from 32 to 1024", experiment.threads));
  require(std::isfinite(experiment.gap_us) && experiment.gap_us >= 0 && experiment.gap_us <= 1e6,
          fmt::format("gap_us {}: a finite number from 0 to 1000000", experiment.gap_us));
}

}  // namespace

std::string_view name_of(StorePath path) { return name_in_list(path); }
std::string_view name_of(BurstMode mode) { return name_in_list(mode); }
std::string_view name_of(Regime regime) { return name_in_list(regime); }
std::string_view name_of(Target target) { return name_in_list(target); }
std::string_view name_of(Direction direction) { return name_in_list(direction); }
std::string_view name_of(GapFiller filler) { return name_in_list(filler); }

template <typename Enum>
Enum parse_name(std::string_view text) {
  const auto& list = Names<Enum>::list;
  const auto found = std::find(list.begin(), list.end(), text);
  if (found == list.end()) {
    throw InputError(fmt::format("{} '{}': not one of {}", Names<Enum>::what, text, fmt::join(list, ", ")));
  }
  return static_cast<Enum>(found - list.begin());
}

template StorePath parse_name<StorePath>(std::string_view);
template BurstMode parse_name<BurstMode>(std::string_view);
template Regime parse_name<Regime>(std::string_view);
template Target parse_name<Target>(std::string_view);
template Direction parse_name<Direction>(std::string_view);
template GapFiller parse_name<GapFiller>(std::string_view);

int store_width_bytes(StorePath path) {
  switch (path) {
    case StorePath::store4:
      return 4;
    case StorePath::store8:
      return 8;
    case StorePath::store16:
    case StorePath::bulk:
      return 16;
  }
  throw InputError(fmt::format("store path {}: unknown", static_cast<int>(path)));
}

void check_experiment(const BurstExperiment& experiment, const NodeDescription& node) {
  require(!node.devices.empty(), "devices 0: the node has none");
  check_device(experiment.source, "source", node);
  if (experiment.target == Target::remote) {
    check_remote_destinations(experiment, node);
  }
  check_producers(experiment, node);
  check_bytes(experiment);
  check_regime(experiment);
  check_threads_and_gap(experiment);
}

}  // namespace xstage
