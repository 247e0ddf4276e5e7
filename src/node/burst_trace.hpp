#pragma once
/// From what each producer logged to the numbers of a sample. No device code: unit-tested on hand-made traces.

#include <vector>

#include "xstage/node.hpp"

namespace xstage {

/// One burst of one producer, microseconds on a clock that all producers of the source GPU share.
struct TracedBurst {
  double start_us = 0;
  double issued_us = 0;
  double visible_us = not_measured;
};

/// One launch: for each producer its bursts in order. Free-running producers may have made different numbers of bursts.
struct BurstTrace {
  std::vector<std::vector<TracedBurst>> producers;
  double clock_mhz = not_measured;
};

/// Reduces the trials of one experiment. `train_length` is the number of bursts between two complete drains.
///  - isolated, train: per burst the mean over producers, then the median over repetitions; one sample (isolated) or
///  one per
///    burst of the train.
///  - periodic, aligned: mean over bursts and producers without the first quarter (transient); the median trial by
///  period.
///  - periodic, free-running: one common window from a quarter of the run to the earliest end of any producer, in which
///    every producer is running. A window over a fixed number of bursts would include the tail in which only the slow
///    producers are left; that is what fixed_work measures.
///  - fixed_work: the whole run, first start to last issue, plus one gap, over the number of bursts.
/// Throws InputError if a trace is empty or too short for its mode.
[[nodiscard]] std::vector<BurstSample> summarise(const BurstExperiment& experiment, int train_length,
                                                 const std::vector<BurstTrace>& trials);

}  // namespace xstage
