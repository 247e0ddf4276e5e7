#pragma once
/// The parts of a calibration's sweep.

#include <cstdint>
#include <utility>
#include <vector>

#include "xstage/node.hpp"

namespace xstage::calibrate {

inline constexpr std::int64_t kibibyte = 1024;

/// Numbers from which the sweep derives its sizes.
struct SweepScale {
  int multiprocessors = 0;  ///< largest K: the smallest number of SMs of any device
  bool has_bulk = false;    ///< cp.async.bulk on every device (compute capability 9.0)
  int devices = 0;
  double drain_bytes_per_us = 0;  ///< rough estimate from the links, only to choose gaps and to count bursts
  bool quick = false;

  /// SMs / divisor, at least 1.
  [[nodiscard]] int fraction(int divisor) const;
  /// V/R of K producers at the expected R.
  [[nodiscard]] double drain_time_us(int producers, std::int64_t bytes) const;
};

/// Throws InputError for a node with fewer than two devices or without SMs.
[[nodiscard]] SweepScale scale_of(const NodeDescription& node, bool quick);

/// A list of experiments, each once: an experiment that is already in it, as a fit row or held out, is not added again.
class ExperimentList {
 public:
  void add(const BurstExperiment& experiment);
  [[nodiscard]] std::vector<BurstExperiment> take() { return std::move(experiments_); }

 private:
  std::vector<BurstExperiment> experiments_;
};

[[nodiscard]] BurstExperiment periodic(const SweepScale& scale, StorePath path, Regime regime, int producers,
                                       std::int64_t bytes, double gap_us);
[[nodiscard]] BurstExperiment isolated(StorePath path, int producers, std::int64_t bytes);
[[nodiscard]] BurstExperiment train(StorePath path, Regime regime, int producers, std::int64_t bytes, double gap_us);
/// Fixed work: 100 bursts for each producer, tail included.
[[nodiscard]] BurstExperiment fixed_work(const SweepScale& scale, StorePath path, int producers, std::int64_t bytes,
                                         double gap_us);

void add_fit_experiments(const SweepScale& scale, ExperimentList& list);
void add_control_experiments(const SweepScale& scale, ExperimentList& list);
void add_device_experiments(const SweepScale& scale, ExperimentList& list);
void add_held_out_experiments(const SweepScale& scale, ExperimentList& list);

}  // namespace xstage::calibrate
