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
constexpr int listed_multiprocessors = 132;

}  // namespace

void add_run_options(CLI::App& verb, BenchOptions& options) {
  verb.add_option("--devices", options.devices, "GPUs, one a rank (0,1); default: all")->delimiter(',');
  verb.add_option("--trials", options.trials, "rounds; at least 6 for an interval")->capture_default_str();
  verb.add_option("--sustained", options.sustained,
                  "rows that are also measured without rests, 2 s each: none, readme (those of this project's tables), "
                  "all")
      ->capture_default_str();
  verb.add_flag("--list", options.list,
                "print the rows that would be measured, with their plans, as JSON, and measure nothing: needs no GPU, "
                "and takes 2 ranks of 132 multiprocessors where --devices does not say how many");
  verb.add_option("-o,--output", options.output, "result file to write (JSON)");
}

void check_options(const BenchOptions& options) {
  if (options.trials < 1 || options.trials > most_trials) {
    throw UsageError(fmt::format("--trials {}: from 1 to {}", options.trials, most_trials));
  }
  static_cast<void>(parsed("--sustained", [&] { return bench::parse_sustained(options.sustained); }));
  require_different_files({options.platform}, {options.output, options.trace});
  refuse_standard_output("-o", options.output);
  refuse_standard_output("--trace", options.trace);
}

std::optional<Platform> read_named_platform(const BenchOptions& options) {
  if (options.platform.empty() || options.list) {
    return std::nullopt;
  }
  return read_platform(options.platform);
}

BenchTarget find_target(const Console& console, const BenchOptions& options) {
  BenchTarget target;
  if (options.list) {
    target.devices = options.devices.empty() ? std::vector<int>{0, 1} : options.devices;
    target.multiprocessors = listed_multiprocessors;
    return target;
  }
  target.node = describe_cuda_devices();
  target.node.command = console.command;
  for (const std::string& file : {options.output, options.trace}) {
    if (!file.empty()) {
      check_writable(file);
    }
  }
  target.devices = choose_devices(options.devices, target.node);
  target.multiprocessors = target.node.devices.at(static_cast<std::size_t>(target.devices.front())).multiprocessors;
  return target;
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

void set_run(bench::RunOptions& run, const BenchOptions& options, const BenchTarget& target) {
  run.devices = target.devices;
  run.trials = options.trials;
  run.verify = options.verify;
  run.spans = options.spans || !options.trace.empty();
  run.sustained = bench::parse_sustained(options.sustained);
}

std::optional<bench::PredictionBasis> prediction_basis(std::optional<Platform> platform, const BenchTarget& target) {
  if (!platform) {
    return std::nullopt;
  }
  bench::PredictionBasis basis{*std::move(platform), target.multiprocessors};
  bench::check_basis(basis);
  return basis;
}

}  // namespace xstage::cli
