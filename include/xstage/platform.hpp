#pragma once
/// A platform profile: what a calibration found out about a node's stores, with the uncertainty of every number.

#include <optional>
#include <string>
#include <vector>

#include "xstage/model.hpp"
#include "xstage/node.hpp"

namespace xstage {

/// A fitted number with its 95% bootstrap interval, or none with the reason why the data cannot support one.
struct Estimate {
  std::optional<double> value;
  double low = not_measured;
  double high = not_measured;
  int points = 0;      ///< samples that the fit used
  std::string reason;  ///< set when `value` is not
};

/// T_iss0 for one burst size per producer. It is interpolated linearly between points; beyond the last point it
/// continues with the last slope.
struct IssueFloorPoint {
  double bytes_per_producer = 0;
  double issue_us = 0;
};

/// Q at one producer count.
struct CapacityPoint {
  int producers = 0;
  Estimate capacity_bytes;
  double knee_bytes_per_producer = not_measured;  ///< where the isolated issue time leaves its floor
  double median_error = not_measured;             ///< of the isolated-burst equation beyond the knee, relative
};

/// How the fit describes the samples that it used: median and worst relative error of the predicted period.
struct GoodnessOfFit {
  double drain_median_error = not_measured;  ///< |V/R(K) - period| / period over drain-bound points
  double drain_worst_error = not_measured;
  double floor_worst_error = not_measured;  ///< |T_iss0 - issue| / issue over points below the knee
};

/// One store path: the model's three numbers.
struct PathProfile {
  StorePath path = StorePath::store16;
  int threads = 256;
  Estimate drain_gb_per_s;           ///< R, aggregate, 1 GB/s = 1e9 bytes/s
  Estimate producer_drain_gb_per_s;  ///< one producer's own bound, R(K) = min(K * this, R)
  /// How unevenly arbitration shares the drain between two halves of the producers, 0 (even) to 1; see dispersion.hpp
  Estimate drain_unevenness;
  std::vector<IssueFloorPoint> issue_floor;
  std::string issue_floor_reason;  ///< set when issue_floor is empty
  std::vector<CapacityPoint> capacity;
  GoodnessOfFit goodness;
};

/// R between one ordered pair of devices (nodes with more than two).
struct PairDrain {
  int source = 0;
  int destination = 0;
  Estimate drain_gb_per_s;
};

struct Platform {
  NodeDescription node;  ///< provenance: where, when and how the samples were taken
  std::vector<PathProfile> paths;
  std::vector<PairDrain> pairs;
  Estimate link_counter_ratio;  ///< bytes counted by the NVLink counters per byte stored
};

/// The profile of one path. Throws InputError if the platform has none.
[[nodiscard]] const PathProfile& path_profile(const Platform& platform, StorePath path);

/// T_iss0 at one burst size, from a table with at least one point. It is linear between points. Beyond the last point
/// it continues with the last slope and never falls; below the first point it is never less than in proportion to the
/// bytes.
[[nodiscard]] double issue_floor_us(const std::vector<IssueFloorPoint>& points, double bytes_per_producer);

/// Model numbers for K producers of B bytes each, or the reason why the profile cannot support one of them.
struct OperatingPointOrReason {
  model::OperatingPoint point;
  bool capacity_known = true;
  bool usable = true;                ///< R and T_iss0 are known
  std::vector<std::string> reasons;  ///< what is missing, and why
  /// Where T_iss0 is extrapolated: the largest fitted burst, if this one is larger, and the smallest, if it is smaller.
  double extrapolated_beyond_bytes = not_measured;
  double extrapolated_below_bytes = not_measured;
};

/// Evaluates the profile at (K, B). Q(K) is interpolated linearly between calibrated producer counts, never
/// extrapolated. Where K * producer rate < R no fabric back-pressure can build up: capacity is infinite and known.
/// Throws InputError for K < 1, K beyond the SMs, B < 1 or not divisible by the store width.
[[nodiscard]] OperatingPointOrReason operating_point(const Platform& platform, StorePath path, int producers,
                                                     double bytes_per_producer);

}  // namespace xstage
