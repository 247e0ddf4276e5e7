#pragma once
/// Answers whether a kernel's remote stores stall it, and which changes of the kernel would alter that answer.
///
/// It evaluates the design test of the paper (section 4.1) on a calibrated platform, once for producers that coincide
/// and once for free-running ones. It gives the price of each violated bound and the values at which the verdict
/// changes.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "xstage/platform.hpp"

namespace xstage {

/// Description of a kernel's remote stores. File format: docs/workload-format.md ("xstage.workload/1").
struct Workload {
  std::string name;
  std::string description;  ///< where its numbers come from, in words
  StorePath path = StorePath::store16;
  int producers = 0;             ///< K: CTAs of one GPU that store remote tiles
  int coincident_producers = 0;  ///< K_act: how many of them reach their tile boundary together; 0 means all
  double bytes = 0;              ///< remote bytes of one producer's tile (B)
  double gap_us = 0;             ///< G: time a producer computes between two remote tiles; measured, not nominal
  /// Finished tiles that staging in shared memory holds before the tensor cores stall; 1: none to spare.
  double staging_slots = 1;
};

/// Fails only if the test says so; a platform that cannot answer is not a pass and not a failure.
enum class Verdict { piggyback, reshape, cannot_decide };
[[nodiscard]] std::string_view name_of(Verdict verdict);

/// One regime's answer.
struct RegimeAudit {
  Regime regime = Regime::free_running;
  Verdict verdict = Verdict::cannot_decide;
  model::DesignTest test;
  double issue_us = not_measured;           ///< predicted issue time of one tile, steady state
  double period_us = not_measured;          ///< predicted tile period
  double rate_price_us = not_measured;      ///< stall per tile from the violated rate bound
  double capacity_price_us = not_measured;  ///< stall per tile from the violated capacity bound
  double stall_share = not_measured;        ///< both prices over the tile period
  double completion_coupled_period_us = not_measured;
  std::vector<std::string> reasons;  ///< why the profile cannot decide
  std::string measurement;           ///< the command that measures what it lacks; empty if it can decide
};

/// A value of one knob, all others as given, at which a regime's verdict changes.
struct Flip {
  Regime regime = Regime::free_running;
  std::string knob;  ///< "gap", "tile bytes", "producers", "coincident producers"
  std::string unit;  ///< "microseconds", "bytes per producer", "producers"
  double current = 0;
  /// Gap: the shortest that passes. Others: the nearest value with another verdict. None: this knob alone changes
  /// nothing
  std::optional<double> flips_at;
  std::string meaning;  ///< one sentence for the user: which side of the value passes, and how to get there
};

struct Audit {
  Workload workload;
  model::OperatingPoint all_producers;  ///< at K: decides the rate bound
  model::OperatingPoint coincident;     ///< at K_act: decides the capacity bound
  RegimeAudit aligned;
  RegimeAudit free_running;  ///< of free-running producers; its capacity margin is infinite: a smooth flow is bound by
                             ///< the rate only
  std::vector<Flip> flips;
};

/// Throws InputError for a workload that breaks a rule (producers beyond the SMs, K_act > K, bytes not divisible, NaN
/// ...).
[[nodiscard]] Audit audit(const Platform& platform, const Workload& workload);

/// Reads "xstage.workload/1" JSON. Throws InputError with the place, the value and the rule.
[[nodiscard]] Workload parse_workload(std::string_view text, std::string_view origin);

}  // namespace xstage
