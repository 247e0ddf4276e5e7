#pragma once
/// Sweep a node, fit its platform profile, and check the profile on samples that the fit has not seen.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "xstage/files.hpp"
#include "xstage/node.hpp"
#include "xstage/platform.hpp"

namespace xstage {

/// What a calibration sweeps; an empty list is the default's. Lists of producers, bytes, gaps or regimes replace what
/// the default sweep varies: isolated and saturating bursts, which the fit reads, at the chosen counts and sizes, and
/// held-out bursts at the chosen gaps and regimes. What no fit can do without is measured in any case: all
/// multiprocessors without a gap (R) and few producers alone (T_iss0).
struct SweepChoice {
  std::vector<StorePath> paths;
  std::vector<int> producers;
  std::vector<std::int64_t> bytes;  ///< per producer
  std::vector<double> gaps_us;
  std::vector<Regime> regimes;
  std::optional<int>
      source;  ///< one of both names the only pair; without: 0 to 1, and every pair where no list is given
  std::optional<int> destination;

  /// A list is given that replaces the default's; paths and devices only narrow the default.
  [[nodiscard]] bool has_lists() const {
    return !producers.empty() || !bytes.empty() || !gaps_us.empty() || !regimes.empty();
  }
  [[nodiscard]] bool is_default() const { return !has_lists() && paths.empty() && !source && !destination; }
};

/// The experiments of a calibration, fit and held-out rows, sized for the node's devices. `quick`: 16-byte stores only.
/// Throws InputError for a choice that the node cannot run.
[[nodiscard]] std::vector<BurstExperiment> calibration_sweep(const NodeDescription& node, bool quick,
                                                             const SweepChoice& choice = {});

/// Called before each experiment with (done, total); return false to stop (throws Interrupted).
using Progress = std::function<bool(std::size_t done, std::size_t total)>;

/// Runs the sweep (a recorded node: everything it holds of the choice). Experiments that the node refuses are an error,
/// not skipped, and so is a choice that no recorded sample has.
[[nodiscard]] SamplesFile run_sweep(Node& node, bool quick, const Progress& progress = {},
                                    const SweepChoice& choice = {});

/// Fits R, producer rate, T_iss0(K,V) and Q(K) for each store path present; ignores held-out rows.
/// What the data cannot support is null with a reason. Throws InputError if there is no usable row at all.
[[nodiscard]] Platform fit(const SamplesFile& samples);

/// One sample beside its prediction. Microseconds; NaN where the profile cannot predict.
struct ComparedSample {
  BurstSample sample;
  double predicted_issue_us = not_measured;
  double predicted_period_us = not_measured;
  double corrected_period_us = not_measured;  ///< fixed work only: model::free_running::fixed_work_period_us
  double uneven_issue_us = not_measured;      ///< trains only: model::uneven_train_issue_us
  double completion_coupled_period_us = not_measured;
  double drain_time_us = not_measured;  ///< V/R
};

/// Errors of predictions of one kind.
struct ErrorStatistics {
  int samples = 0;
  double median = not_measured;
  double worst = not_measured;
};

/// Errors of one quantity in one group of samples: one mode and regime of one path. The paper's law and, where this
/// library goes beyond it, the corrected prediction side by side.
struct ErrorSummary {
  std::string group;       ///< "16-byte stores, periodic, free-running"
  std::string quantity;    ///< what the errors are of
  bool in_bursts = false;  ///< errors are differences in bursts (onset of a train), not fractions
  bool of_the_law = true;  ///< false where the law claims nothing: the slowest producer, the completion-coupled period
  ErrorStatistics law;
  std::string correction;  ///< what is corrected: "tail of fixed work", "uneven drain"; empty where nothing is
  ErrorStatistics corrected;
};

struct Validation {
  std::vector<ComparedSample> rows;
  std::vector<ErrorSummary> errors;
};

/// Predicts every remote row (held-out rows only, unless `all`) from the gap that the sample measured.
[[nodiscard]] Validation validate(const Platform& platform, const SamplesFile& samples, bool all);

}  // namespace xstage
