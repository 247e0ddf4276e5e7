/// The experiments that the fit uses, and those that test its assumptions (controls, both directions, filled gaps,
/// other devices).

#include <algorithm>
#include <vector>

#include "calibrate/sweep.hpp"

namespace xstage::calibrate {
namespace {

using Sizes = std::vector<std::int64_t>;

/// Burst sizes and producer counts of one path. Sizes are KiB per producer.
struct PathSweep {
  StorePath path;
  Sizes saturation;  ///< zero-gap periodic, at every producer count
  std::vector<int> counts;
  Sizes floor;         ///< isolated, few producers: the T_iss0 table
  Sizes knee_all;      ///< isolated, all SMs
  Sizes knee_half;     ///< isolated, half of the SMs
  Sizes knee_quarter;  ///< isolated, a quarter
  Sizes knee_eighth;   ///< isolated, an eighth: the knee comes late, since few producers hardly outrun the drain
  Sizes plateau;       ///< periodic with a long gap, all SMs
};

std::vector<int> within(std::vector<int> counts, int most) {
  std::sort(counts.begin(), counts.end());
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  counts.erase(std::upper_bound(counts.begin(), counts.end(), most), counts.end());
  return counts;
}

/// All paths drain alike and differ in their knees; the two paths that kernels use are swept most densely.
PathSweep dense_sweep(const SweepScale& scale, StorePath path) {
  return {path,
          {8, 32, 128},
          within({1, 2, 4, 8, scale.fraction(8), scale.fraction(4), scale.fraction(2), scale.multiprocessors},
                 scale.multiprocessors),
          {1, 2, 4, 8, 12, 16, 20, 24, 32, 48, 64, 80, 128},
          {1, 2, 4, 6, 8, 12, 16, 20, 24, 32, 48, 64, 80, 128},
          {8, 16, 24, 32, 48, 64, 128},
          {16, 32, 48, 64, 80, 128},
          {64, 96, 128, 192, 256},
          {8, 32, 64, 128}};
}

PathSweep sparse_sweep(const SweepScale& scale, StorePath path) {
  return {path,
          {8, 32, 128},
          within({1, 4, scale.fraction(4), scale.fraction(2), scale.multiprocessors}, scale.multiprocessors),
          {1, 4, 8, 16, 32, 64, 128},
          {8, 16, 20, 24, 32, 48, 64, 128},
          {24, 32, 48, 64, 128},
          {},
          {},
          {32}};
}

PathSweep quick_sweep(const SweepScale& scale) {
  return {StorePath::store16,
          {8, 32, 128},
          within({1, 4, scale.fraction(4), scale.fraction(2), scale.multiprocessors}, scale.multiprocessors),
          {1, 2, 4, 8, 12, 16, 24, 32, 64, 128},
          {1, 4, 8, 16, 20, 24, 32, 48, 64, 128},
          {24, 32, 48, 64, 128},
          {48, 64, 80, 128},
          {},
          {32, 128}};
}

void add_isolated(StorePath path, int producers, const Sizes& kibibytes, ExperimentList& list) {
  for (const std::int64_t size : kibibytes) {
    list.add(isolated(path, producers, size * kibibyte));
  }
}

void add_path(const SweepScale& scale, const PathSweep& sweep, ExperimentList& list) {
  for (const int producers : sweep.counts) {
    for (const std::int64_t size : sweep.saturation) {
      list.add(periodic(scale, sweep.path, Regime::free_running, producers, size * kibibyte, 0));
    }
  }
  add_isolated(sweep.path, std::min(4, scale.multiprocessors), sweep.floor, list);
  add_isolated(sweep.path, scale.fraction(8), sweep.knee_eighth, list);
  add_isolated(sweep.path, scale.fraction(4), sweep.knee_quarter, list);
  add_isolated(sweep.path, scale.fraction(2), sweep.knee_half, list);
  add_isolated(sweep.path, scale.multiprocessors, sweep.knee_all, list);
  for (const std::int64_t size : sweep.plateau) {
    const std::int64_t bytes = size * kibibyte;
    const double long_gap_us = 2 * scale.drain_time_us(scale.multiprocessors, bytes);
    list.add(periodic(scale, sweep.path, Regime::free_running, scale.multiprocessors, bytes, long_gap_us));
  }
}

/// Base case of the controls, each of which varies it in one respect: all SMs x 32 KiB, spinning, with a fraction of
/// V/R as the gap.
BurstExperiment control_case(const SweepScale& scale, StorePath path, double gap_share) {
  const std::int64_t bytes = 32 * kibibyte;
  return periodic(scale, path, Regime::free_running, scale.multiprocessors, bytes,
                  gap_share * scale.drain_time_us(scale.multiprocessors, bytes));
}

void add_local_controls(const SweepScale& scale, StorePath path, ExperimentList& list) {
  BurstExperiment burst = isolated(path, scale.multiprocessors, 32 * kibibyte);
  burst.target = Target::local;
  list.add(burst);
  for (const double gap_share : {0.0, 1.0}) {
    BurstExperiment control = control_case(scale, path, gap_share);
    control.target = Target::local;
    list.add(control);
  }
}

void add_both_ways(const SweepScale& scale, StorePath path, ExperimentList& list) {
  BurstExperiment experiment = control_case(scale, path, 0);
  experiment.direction = Direction::both_ways;
  list.add(experiment);
}

void add_filled_gaps(const SweepScale& scale, GapFiller filler, ExperimentList& list) {
  for (const double gap_share : {0.25, 0.75}) {
    BurstExperiment experiment = control_case(scale, StorePath::store16, gap_share);
    experiment.filler = filler;
    list.add(experiment);
  }
}

}  // namespace

void add_fit_experiments(const SweepScale& scale, ExperimentList& list) {
  if (scale.quick) {
    add_path(scale, quick_sweep(scale), list);
    return;
  }
  add_path(scale, dense_sweep(scale, StorePath::store16), list);
  add_path(scale, sparse_sweep(scale, StorePath::store8), list);
  add_path(scale, sparse_sweep(scale, StorePath::store4), list);
  if (scale.has_bulk) {
    add_path(scale, dense_sweep(scale, StorePath::bulk), list);
  }
}

void add_control_experiments(const SweepScale& scale, ExperimentList& list) {
  add_local_controls(scale, StorePath::store16, list);
  add_both_ways(scale, StorePath::store16, list);
  if (scale.quick) {
    return;
  }
  add_filled_gaps(scale, GapFiller::memory_reads, list);
  add_filled_gaps(scale, GapFiller::tensor_cores, list);
  if (scale.has_bulk) {
    add_local_controls(scale, StorePath::bulk, list);
    add_both_ways(scale, StorePath::bulk, list);
  }
}

/// Adds every ordered pair of devices, and one source with several destinations, if there are more than two devices.
void add_device_experiments(const SweepScale& scale, ExperimentList& list) {
  if (scale.devices <= 2) {
    return;
  }
  BurstExperiment experiment =
      periodic(scale, StorePath::store16, Regime::free_running, scale.multiprocessors, 128 * kibibyte, 0);
  for (int source = 0; source < scale.devices; ++source) {
    std::vector<int> others;
    for (int destination = 0; destination < scale.devices; ++destination) {
      if (destination != source) {
        experiment.source = source;
        experiment.destinations = {destination};
        list.add(experiment);
        others.push_back(destination);
      }
    }
    if (source == 0) {
      experiment.destinations = others;
      list.add(experiment);
      experiment.destinations = {1, 2};
      list.add(experiment);
    }
  }
}

}  // namespace xstage::calibrate
