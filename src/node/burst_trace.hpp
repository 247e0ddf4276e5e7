#pragma once
/// Computes a sample from the log of each producer. There is no device code here; unit tests use hand-made traces.

#include <vector>

#include "xstage/node.hpp"

namespace xstage {

/// One burst of one producer, microseconds on a clock that all producers of the source GPU share.
struct TracedBurst {
  double start_us = 0;
  double issued_us = 0;
  double visible_us = not_measured;
};

/// The bursts of one launch, in order for each producer. Free-running producers may have made different numbers of
/// bursts.
struct BurstTrace {
  std::vector<std::vector<TracedBurst>> producers;
  double clock_mhz = not_measured;
};

/// Reduces the trials of one experiment. `train_length` is the number of bursts between two complete drains.
/// - isolated, train: for each burst the mean over producers, then the median over repetitions. The result is one
///   sample (isolated) or one for each burst of the train.
/// - periodic, aligned: the mean over bursts and producers without the first quarter (transient), of the trial with the
///   median period.
/// - periodic, free-running: one common window from a quarter of the run to the earliest end of any producer, in which
///   every producer runs. A window over a fixed number of bursts would include the tail in which only the slow
///   producers are left; that is what fixed_work measures.
/// - fixed_work: the whole run, from the first start to the last issue, plus one gap, over the number of bursts.
/// Throws InputError if a trace is empty or too short for its mode.
[[nodiscard]] std::vector<BurstSample> summarise(const BurstExperiment& experiment, int train_length,
                                                 const std::vector<BurstTrace>& trials);

}  // namespace xstage
