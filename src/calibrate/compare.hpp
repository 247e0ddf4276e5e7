#pragma once
/// Predicts measured samples from the gap that each sample measured. See docs/fitting.md.

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "xstage/calibrate.hpp"

namespace xstage::calibrate {

/// Whether the mode is periodic or fixed work. The period law predicts both, except for the end of a run, in which only
/// slow producers are left and which only fixed work includes.
[[nodiscard]] bool is_steady_state(BurstMode mode);

/// An isolated, periodic or fixed-work sample beside its prediction.
[[nodiscard]] ComparedSample compare_steady(const Platform& platform, const BurstSample& sample);

/// The first burst with back-pressure, counted from 0; the number of bursts if there is none.
struct Onset {
  std::ptrdiff_t predicted = 0;
  std::ptrdiff_t measured = 0;
};

struct ComparedTrain {
  std::vector<ComparedSample> bursts;
  std::optional<Onset> onset;         ///< by the backlog recursion; none where the profile cannot predict the train
  std::optional<Onset> uneven_onset;  ///< by model::uneven_train_issue_us; none where unevenness was not fitted
};

/// One train, its bursts in order. In both regimes all producers start a train together; free-running ones stay
/// together up to their first stall, so that the backlog recursion holds up to the onset of back-pressure.
[[nodiscard]] ComparedTrain compare_train(const Platform& platform, std::span<const BurstSample> train);

/// Whether the sample lies beyond the knee, by the prediction or by the measurement, so that a wrong Q cannot hide its
/// rows.
[[nodiscard]] bool is_beyond_knee(const Platform& platform, const ComparedSample& isolated);

}  // namespace xstage::calibrate
