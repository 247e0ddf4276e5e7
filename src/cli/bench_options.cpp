#include "cli/bench_options.hpp"

#include <algorithm>
#include <numeric>
#include <set>

#include "xstage/peer_view.hpp"

namespace xstage::cli {

namespace {

constexpr int most_trials = 10000;

}  // namespace

void check_trials(int trials) {
  if (trials < 1 || trials > most_trials) {
    throw UsageError(fmt::format("--trials {}: from 1 to {}", trials, most_trials));
  }
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

ExitCode verdict(Console& console, const std::string& output, std::size_t rows, const bench::RunState& state) {
  const std::string kept = output.empty() ? "" : fmt::format("; {} has the {} rows of the others", output, rows);
  if (state.stopped) {
    console.err << "xstage: interrupted" << kept << '\n';
    return ExitCode::device;
  }
  if (state.failed_cells > 0) {
    console.err << fmt::format("xstage: {} cells failed{}\n", state.failed_cells, kept);
    return ExitCode::device;
  }
  if (state.wrong_cells > 0) {
    console.err << fmt::format("xstage: {} cells have wrong results{}\n", state.wrong_cells, kept);
    return ExitCode::test_failed;
  }
  return ExitCode::success;
}

}  // namespace xstage::cli
