/// Experiments that validate predictions and are not fitted: gaps around the corner, bursts beyond the knee at sizes
/// that the fit does not use, and trains in which back-pressure sets in.

#include <vector>

#include "calibrate/sweep.hpp"

namespace xstage::calibrate {
namespace {

using Sizes = std::vector<std::int64_t>;  // KiB per producer
using GapShares = std::vector<double>;    // multiples of V/R: the corner lies just below 1

const GapShares all_gaps{0, 0.25, 0.5, 0.75, 0.9, 1.0, 1.1, 1.25, 1.5, 2};
const GapShares some_gaps{0, 0.5, 0.75, 1.0, 1.25, 2};

void add_held_out(BurstExperiment experiment, ExperimentList& list) {
  experiment.held_out = true;
  list.add(experiment);
}

void add_gap_sweeps(const SweepScale& scale, StorePath path, Regime regime, const Sizes& kibibytes,
                    const GapShares& gaps, ExperimentList& list) {
  const int producers = scale.multiprocessors;
  for (const std::int64_t size : kibibytes) {
    const std::int64_t bytes = size * kibibyte;
    for (const double gap : gaps) {
      add_held_out(periodic(scale, path, regime, producers, bytes, gap * scale.drain_time_us(producers, bytes)), list);
    }
  }
}

void add_isolated_bursts(StorePath path, int producers, const Sizes& kibibytes, ExperimentList& list) {
  for (const std::int64_t size : kibibytes) {
    add_held_out(isolated(path, producers, size * kibibyte), list);
  }
}

/// Adds trains. In a free-running one the first burst fits into the X-Stage and each burst adds what its gap does not
/// drain, so that back-pressure sets in after a few bursts: with Q of 18 KiB per producer (16-byte stores) or 10 KiB
/// (bulk) between the second and the tenth. An aligned train shows the other case: the barrier's own traffic queues
/// behind the stores, so that each of its bursts meets an X-Stage that has nearly drained, and back-pressure does not
/// grow from burst to burst.
void add_trains(const SweepScale& scale, StorePath path, const Sizes& kibibytes, ExperimentList& list) {
  const int producers = scale.multiprocessors;
  for (const std::int64_t size : kibibytes) {
    const std::int64_t bytes = size * kibibyte;
    const double drain_us = scale.drain_time_us(producers, bytes);
    for (const double gap : {0.25, 0.5, 0.75}) {
      add_held_out(train(path, Regime::free_running, producers, bytes, gap * drain_us), list);
    }
    add_held_out(train(path, Regime::aligned, producers, bytes, 0.5 * drain_us), list);
  }
}

void add_fixed_work(const SweepScale& scale, StorePath path, const Sizes& kibibytes, ExperimentList& list) {
  const int producers = scale.multiprocessors;
  for (const std::int64_t size : kibibytes) {
    const std::int64_t bytes = size * kibibyte;
    for (const double gap : {0.0, 0.5, 0.7, 0.8, 0.9, 1.1}) {
      add_held_out(fixed_work(scale, path, producers, bytes, gap * scale.drain_time_us(producers, bytes)), list);
    }
  }
}

void add_quick(const SweepScale& scale, ExperimentList& list) {
  add_gap_sweeps(scale, StorePath::store16, Regime::free_running, {24, 64}, all_gaps, list);
  add_gap_sweeps(scale, StorePath::store16, Regime::aligned, {48}, some_gaps, list);
  add_isolated_bursts(StorePath::store16, scale.multiprocessors, {36, 56, 96}, list);
  add_trains(scale, StorePath::store16, {8}, list);
  add_fixed_work(scale, StorePath::store16, {32}, list);
}

}  // namespace

void add_held_out_experiments(const SweepScale& scale, ExperimentList& list) {
  if (scale.quick) {
    add_quick(scale, list);
    return;
  }
  add_gap_sweeps(scale, StorePath::store16, Regime::free_running, {16, 24, 48, 64}, all_gaps, list);
  add_gap_sweeps(scale, StorePath::store16, Regime::aligned, {16, 24, 48, 64}, some_gaps, list);
  add_isolated_bursts(StorePath::store16, scale.multiprocessors, {36, 56, 96, 112}, list);
  add_isolated_bursts(StorePath::store16, scale.fraction(2), {56, 96}, list);
  add_trains(scale, StorePath::store16, {6, 8, 12, 16}, list);
  add_fixed_work(scale, StorePath::store16, {16, 32}, list);
  if (scale.has_bulk) {
    add_gap_sweeps(scale, StorePath::bulk, Regime::free_running, {24, 48}, all_gaps, list);
    add_gap_sweeps(scale, StorePath::bulk, Regime::aligned, {24, 48}, some_gaps, list);
    add_isolated_bursts(StorePath::bulk, scale.multiprocessors, {36, 56, 96, 112}, list);
    add_trains(scale, StorePath::bulk, {4, 6, 8}, list);
    add_fixed_work(scale, StorePath::bulk, {32}, list);
  }
}

}  // namespace xstage::calibrate
