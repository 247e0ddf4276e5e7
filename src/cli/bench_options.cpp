#include "cli/bench_options.hpp"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "cli/output_paths.hpp"
#include "xstage/cuda_node.hpp"
#include "xstage/files.hpp"
#include "xstage/peer_view.hpp"

namespace xstage::cli {

namespace {

constexpr int most_trials = 10000;

}  // namespace

void add_run_options(CLI::App& verb, BenchOptions& options) {
  verb.add_option("--devices", options.devices, "GPUs, one a rank (0,1); default: all")->delimiter(',');
  verb.add_option("--trials", options.trials, "rounds; at least 6 for an interval")->capture_default_str();
  verb.add_option("-o,--output", options.output, "result file to write (JSON)");
}

void check_options(const BenchOptions& options) {
  if (options.trials < 1 || options.trials > most_trials) {
    throw UsageError(fmt::format("--trials {}: from 1 to {}", options.trials, most_trials));
  }
  require_different_files({options.platform, options.output, options.trace});
}

std::optional<Platform> read_named_platform(const BenchOptions& options) {
  if (options.platform.empty()) {
    return std::nullopt;
  }
  return read_platform(options.platform);
}

NodeDescription describe_machine(const Console& console, const BenchOptions& options) {
  NodeDescription node = describe_cuda_devices();
  node.command = console.command;
  for (const std::string& file : {options.output, options.trace}) {
    if (!file.empty()) {
      check_writable(file);
    }
  }
  return node;
}

std::vector<int> choose_devices(const std::vector<int>& named, const NodeDescription& node) {
  const int count = static_cast<int>(node.devices.size());
  std::vector<int> devices = named;
  if (devices.empty()) {
    devices.resize(static_cast<std::size_t>(std::min(count, max_world)));
    std::iota(devices.begin(), devices.end(), 0);
  }
  if (devices.size() > max_world || std::set<int>(devices.begin(), devices.end()).size() != devices.size()) {
    throw UsageError(fmt::format("--devices: at most {} GPUs, each once", max_world));
  }
  for (const int device : devices) {
    if (device < 0 || device >= count) {
      throw InputError(fmt::format("--devices {}: this machine has GPUs 0 to {}", device, count - 1));
    }
  }
  return devices;
}

std::optional<bench::PredictionBasis> prediction_basis(std::optional<Platform> platform, const NodeDescription& node,
                                                       const std::vector<int>& devices) {
  if (!platform) {
    return std::nullopt;
  }
  const auto first = static_cast<std::size_t>(devices.front());
  bench::PredictionBasis basis{*std::move(platform), node.devices.at(first).multiprocessors};
  bench::check_basis(basis);
  return basis;
}

}  // namespace xstage::cli
