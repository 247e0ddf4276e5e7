#pragma once
/// Samples of a machine that obeys the Burst-Gap equations exactly, with seeded noise and outliers on request.

#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include "xstage/files.hpp"
#include "xstage/node.hpp"

namespace xstage::test {

/// The numbers that a fit should find again. The equations are written out here, not taken from the model.
struct Truth {
  double drain = 372500;                     ///< R, bytes/us
  double producer = 50000;                   ///< per producer, bytes/us
  double queue_bytes = 16384;                ///< per-SM queue: the floor's slope breaks here
  double capacity_per_producer = 22 * 1024;  ///< Q(K) = K * this where the fabric can back up at all
  double loop_overhead_us = 0.07;            ///< measured gap where none was asked for

  [[nodiscard]] double rate(int producers) const;
  [[nodiscard]] double floor_us(double bytes) const;
  [[nodiscard]] bool backs_up(int producers) const { return producers * producer > drain; }
  [[nodiscard]] double capacity(int producers) const { return producers * capacity_per_producer; }
};

/// Relative noise of one standard deviation, the same on every platform.
class Noise {
 public:
  explicit Noise(double deviation = 0, std::uint64_t seed = 1) : deviation_(deviation), random_(seed) {}
  [[nodiscard]] double factor();

 private:
  double deviation_;
  std::mt19937_64 random_;
};

[[nodiscard]] NodeDescription synthetic_node(int devices = 2, int multiprocessors = 132);

/// One sample, or one per burst of a train.
[[nodiscard]] std::vector<BurstSample> synthetic_samples(const Truth& truth, const BurstExperiment& experiment,
                                                         Noise& noise);

/// The samples of all `experiments`.
[[nodiscard]] SamplesFile synthetic_file(const Truth& truth, const std::vector<BurstExperiment>& experiments,
                                         Noise noise = Noise());

/// The samples of a whole calibration sweep.
[[nodiscard]] SamplesFile synthetic_calibration(const Truth& truth, bool quick, Noise noise = Noise());

/// Rows for which `choose` holds.
[[nodiscard]] SamplesFile only(SamplesFile file, const std::function<bool(const BurstExperiment&)>& choose);

[[nodiscard]] BurstExperiment zero_gap_experiment(int producers, std::int64_t bytes);
[[nodiscard]] BurstExperiment isolated_experiment(int producers, std::int64_t bytes);

/// Zero-gap rows of 1 to 132 producers and isolated rows of 4 producers: enough for R, the producer rate and T_iss0.
[[nodiscard]] std::vector<BurstExperiment> drain_and_floor_experiments();

/// The probes of two H200 that came before this tool: tests/data/first_measurement_h200x2.csv.
[[nodiscard]] SamplesFile first_measurement();

}  // namespace xstage::test
