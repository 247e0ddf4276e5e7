#pragma once
/// One point of a node (producers, bytes, gap, path, regime, device pair), measured several times: do its bursts issue
/// as fast as a burst can, or does the drain hold them back?

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "xstage/calibrate.hpp"
#include "xstage/node.hpp"
#include "xstage/platform.hpp"

namespace xstage {

/// Median over repetitions with its 95% bootstrap interval. One repetition has no interval.
struct MeasuredValue {
  double value = not_measured;
  double low = not_measured;
  double high = not_measured;
  int repetitions = 0;
  double law = not_measured;        ///< what the profile predicts, if predict_point was asked
  double corrected = not_measured;  ///< the same where this library goes beyond the paper's law
};

/// Steady state, or one burst of a train.
struct MeasuredBurst {
  int burst_index = -1;  ///< train: from 0; -1 elsewhere
  MeasuredValue issue_us;
  MeasuredValue issue_p5_us;  ///< over producers and bursts
  MeasuredValue issue_p95_us;
  MeasuredValue slowest_issue_us;
  MeasuredValue gap_us;
  MeasuredValue period_us;
  MeasuredValue rate_gb_per_s;
};

enum class BackPressure { free_runs, held_back, not_decided };
/// "free_runs", "held_back", "not_decided".
[[nodiscard]] std::string_view name_of(BackPressure back_pressure);

struct MeasuredPoint {
  BurstExperiment experiment;          ///< as it ran
  std::vector<MeasuredBurst> bursts;   ///< one; of a train one for each burst
  MeasuredValue alone_issue_us;        ///< a burst of all producers onto an empty fabric
  MeasuredValue alone_complete_us;     ///< the same until its bytes are visible at the peer; the law's is V/R
  int floor_producers = 0;             ///< so few that the drain keeps up with them
  MeasuredValue floor_us;              ///< issue time of these: T_iss0
  MeasuredValue stall_us;              ///< issue time (train: the longest of a burst) less the floor
  double tolerance_us = not_measured;  ///< a stall up to this is the spread of undisturbed bursts
  BackPressure back_pressure = BackPressure::not_decided;
  std::vector<BurstSample> samples;  ///< everything that was measured, in order
};

/// The node of one repetition. A simulated node repeats itself to the last digit unless its seed is another one.
using NodeOfRepetition = std::function<Node&(int repetition)>;

/// Runs the point, a burst of it alone and the burst of few producers, `repetitions` times each; of a recorded node
/// whatever it holds of them. `bursts` 0 of the experiment: as many as a calibration takes. Throws InputError for an
/// experiment that breaks a rule of the node or, with the nearest points, one that a recorded node does not hold.
[[nodiscard]] MeasuredPoint measure_point(const NodeOfRepetition& node, const BurstExperiment& experiment,
                                          int repetitions, const Progress& progress = {});

/// Adds what the profile predicts, from the gaps that were measured. What it cannot predict stays not measured; the
/// reasons are returned.
std::vector<std::string> predict_point(const Platform& platform, MeasuredPoint& point);

}  // namespace xstage
