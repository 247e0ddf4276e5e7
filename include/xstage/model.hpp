#pragma once
/// The Burst-Gap model: what stores to a peer GPU cost the kernel that issues them.
///
/// Source: "X-Stage" (arXiv 2607.23264), sections 3 to 5. A burst is `K` producers (CTAs) storing `B` bytes each,
/// volume `V = K*B`; then they compute for a gap `G` without storing. A platform is three measured quantities, here
/// evaluated at one (K, V) and gathered in `OperatingPoint`.
///
/// Units everywhere: time in microseconds, sizes in bytes, rates in bytes per microsecond (1 GB/s = 1000 bytes/us).
/// All functions are pure, allocate nothing, need no synchronisation and accept any finite non-negative numbers; they
/// check nothing, since callers validate once (see platform.hpp and audit.hpp) and evaluate often.
///
/// Two regimes, which the paper's equations do not name and which differ for long gaps and large volumes:
///  - `free_running`: producers start when they like; after the first stall they stay dispersed and the flow is smooth.
///  - `aligned`: a barrier, a wave boundary or a kernel start makes all producers store at the same moment.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>

namespace xstage::model {

/// The platform's numbers at one producer count K and burst volume V.
struct OperatingPoint {
  double volume_bytes = 0;        ///< V = K*B
  double issue_floor_us = 0;      ///< T_iss0(K,V): issue time without back-pressure
  double drain_bytes_per_us = 1;  ///< R(K) = min(K * producer rate, R)
  /// Q(K): bytes that may be accepted and not yet drained. Infinity where the producers' own rate is the only bound.
  double capacity_bytes = std::numeric_limits<double>::infinity();
};

/// V/R, the drain horizon of one burst.
constexpr double drain_time_us(const OperatingPoint& p) noexcept { return p.volume_bytes / p.drain_bytes_per_us; }

/// G* = max(0, V/R - T_iss0): the shortest gap after which the next burst issues at its floor again.
constexpr double recovery_gap_us(const OperatingPoint& p) noexcept {
  return std::max(0.0, drain_time_us(p) - p.issue_floor_us);
}

/// q_peak0 = max(0, V - R*T_iss0): what one burst leaves outstanding at the end of its issue if nothing limits it.
constexpr double peak_outstanding_bytes(const OperatingPoint& p) noexcept {
  return std::max(0.0, p.volume_bytes - p.drain_bytes_per_us * p.issue_floor_us);
}

/// Issue time of one burst that meets an empty X-Stage: max(T_iss0, (V - Q)/R).
constexpr double isolated_issue_us(const OperatingPoint& p) noexcept {
  return std::max(p.issue_floor_us, (p.volume_bytes - p.capacity_bytes) / p.drain_bytes_per_us);
}

/// Q = V_knee - R*T_iss0(V_knee): capacity from the volume at which the isolated issue time leaves its floor.
constexpr double capacity_from_knee_bytes(double knee_volume_bytes, double drain_bytes_per_us,
                                          double issue_floor_at_knee_us) noexcept {
  return knee_volume_bytes - drain_bytes_per_us * issue_floor_at_knee_us;
}

namespace free_running {

/// Steady-state issue time: max(T_iss0, V/R - G).
constexpr double issue_us(const OperatingPoint& p, double gap_us) noexcept {
  return std::max(p.issue_floor_us, drain_time_us(p) - gap_us);
}

/// Steady-state period: max(T_iss0 + G, V/R).
constexpr double period_us(const OperatingPoint& p, double gap_us) noexcept {
  return std::max(p.issue_floor_us + gap_us, drain_time_us(p));
}

/// Period of a run in which every producer makes the same fixed number of bursts (tiles dealt out statically), tail
/// included. Not in the paper; beside its law, not instead of it. While the drain is the bottleneck it is shared
/// unevenly: favoured producers run at their floor P0 = T_iss0 + G and finish their share early, after which the others
/// are too few to saturate the drain. With x = P0*R/V, the share of the period that the favoured need, they lead by 1 -
/// x of the run; once a share 1 - x of the producers has ended the rest, x of them, run at P0 with on average half of
/// x*(1 - x) of the run still to do:
///   T_fixed = V/R + P0 * x * (1 - x) / 2   for x < 1, else P0.
/// No fitted number. On H200 (132 producers, 16 and 32 KiB, 100 bursts each) the plain law reads up to 8% low just
/// before the corner, this one stays within 5%; see docs/notes/calibration.md. Tiles that producers claim dynamically
/// follow the plain law.
constexpr double fixed_work_period_us(const OperatingPoint& p, double gap_us) noexcept {
  const double floor_period = p.issue_floor_us + gap_us;
  const double drain_time = drain_time_us(p);
  if (floor_period >= drain_time) {
    return floor_period;
  }
  const double share = floor_period / drain_time;
  return drain_time + floor_period * share * (1 - share) / 2;
}

/// Back-pressure: max(0, V/R - G - T_iss0), the part of the issue time that a longer gap would remove.
constexpr double issue_overhead_us(const OperatingPoint& p, double gap_us) noexcept {
  return std::max(0.0, recovery_gap_us(p) - gap_us);
}

}  // namespace free_running

namespace aligned {

/// Outstanding bytes before and after one burst, and the burst's issue time.
struct BurstOutcome {
  double backlog_at_start_bytes = 0;
  double issue_us = 0;
  double backlog_at_end_bytes = 0;
};

/// One step of the backlog recursion. `backlog_bytes` is what the previous burst left (0 for the first), `gap_us` the
/// time since its end:
///   q' = max(0, q - R*G);  T = max(T_iss0, (q' + V - Q)/R);  q = max(0, q' + V - R*T)
constexpr BurstOutcome next_burst(const OperatingPoint& p, double gap_us, double backlog_bytes) noexcept {
  BurstOutcome outcome;
  outcome.backlog_at_start_bytes = std::max(0.0, backlog_bytes - p.drain_bytes_per_us * gap_us);
  const double offered = outcome.backlog_at_start_bytes + p.volume_bytes;
  outcome.issue_us = std::max(p.issue_floor_us, (offered - p.capacity_bytes) / p.drain_bytes_per_us);
  outcome.backlog_at_end_bytes = std::max(0.0, offered - p.drain_bytes_per_us * outcome.issue_us);
  return outcome;
}

/// Fills `issue_us` with the issue times of a train of `issue_us.size()` bursts that starts with an empty X-Stage.
constexpr void train_issue_us(const OperatingPoint& p, double gap_us, std::span<double> issue_us) noexcept {
  double backlog = 0;
  for (double& issue : issue_us) {
    const BurstOutcome outcome = next_burst(p, gap_us, backlog);
    issue = outcome.issue_us;
    backlog = outcome.backlog_at_end_bytes;
  }
}

/// Steady-state issue time of the recursion: max(T_iss0, V/R - min(G, Q/R)).
constexpr double issue_us(const OperatingPoint& p, double gap_us) noexcept {
  return std::max(p.issue_floor_us, drain_time_us(p) - std::min(gap_us, p.capacity_bytes / p.drain_bytes_per_us));
}

/// Steady-state period: issue time plus gap.
constexpr double period_us(const OperatingPoint& p, double gap_us) noexcept { return issue_us(p, gap_us) + gap_us; }

/// Back-pressure of the steady state: issue time beyond the floor.
constexpr double issue_overhead_us(const OperatingPoint& p, double gap_us) noexcept {
  return issue_us(p, gap_us) - p.issue_floor_us;
}

}  // namespace aligned

/// Index (from 0) of the first burst whose issue time exceeds `floor_us` by more than `tolerance_us`; -1 if none does.
constexpr std::ptrdiff_t onset_of_backpressure(std::span<const double> issue_us, double floor_us,
                                               double tolerance_us) noexcept {
  for (std::size_t burst = 0; burst < issue_us.size(); ++burst) {
    if (issue_us[burst] > floor_us + tolerance_us) {
      return static_cast<std::ptrdiff_t>(burst);
    }
  }
  return -1;
}

/// The design test: no added back-pressure if both bounds hold.
struct DesignTest {
  double rate_margin_us = 0;         ///< G - G*: positive when V/(T_iss0 + G) < R
  double capacity_margin_bytes = 0;  ///< Q - q_peak0
  [[nodiscard]] constexpr bool rate_holds() const noexcept { return rate_margin_us >= 0; }
  [[nodiscard]] constexpr bool capacity_holds() const noexcept { return capacity_margin_bytes >= 0; }
  [[nodiscard]] constexpr bool holds() const noexcept { return rate_holds() && capacity_holds(); }
};

constexpr DesignTest design_test(const OperatingPoint& p, double gap_us) noexcept {
  return {gap_us - (drain_time_us(p) - p.issue_floor_us), p.capacity_bytes - peak_outstanding_bytes(p)};
}

/// The counterfactual that X-Stage replaces: the issuer waits until its stores are visible at the peer.
namespace completion_coupled {

/// T_period = G + max(T_iss0, V/R). The paper has G + V/R, which is the same where stores are accepted faster than they
/// drain. Where they are not (T_iss0 > V/R: small bursts, few producers), the drain waits for the SMs: no store is
/// visible before it is issued, so that waiting for visibility takes at least T_iss0. Without that bound a kernel that
/// waits would seem faster than one that does not, whose period is max(T_iss0 + G, V/R).
constexpr double period_us(const OperatingPoint& p, double gap_us) noexcept {
  return gap_us + std::max(p.issue_floor_us, drain_time_us(p));
}

/// The same with a fixed number of bursts for every producer (free_running::fixed_work_period_us). A producer that
/// waits for visibility begins its next burst no earlier than one that does not, and a drain to which the same bytes
/// come later has not drained them earlier: the tail of fixed work is a lower bound here, too.
constexpr double fixed_work_period_us(const OperatingPoint& p, double gap_us) noexcept {
  return std::max(period_us(p, gap_us), free_running::fixed_work_period_us(p, gap_us));
}

/// Stage times of one expert wave of a fused MoE layer, microseconds.
struct Wave {
  double linear1_us = 0;
  double activation_us = 0;
  double linear2_us = 0;
  double local_epilogue_us = 0;
  double issue_us = 0;
  double post_issue_us = 0;  ///< from accepted issue to remote visibility
};

/// T_wave = max(T_Lin1, T_Act) + max(T_Lin2, T_local_epilogue + T_issue + T_post_issue).
constexpr double wave_us(const Wave& wave) noexcept {
  const double combine = wave.local_epilogue_us + wave.issue_us + wave.post_issue_us;
  return std::max(wave.linear1_us, wave.activation_us) + std::max(wave.linear2_us, combine);
}

}  // namespace completion_coupled

/// M_ub*: the shortest sequence whose Q-loop covers the recovery gap, min M >= 1 with ceil(M/b_n) * t_step >= G*.
/// `key_block` is b_n, the keys of one loop step; `step_us` the time of one step (> 0).
inline double shortest_covered_sequence(const OperatingPoint& p, double key_block, double step_us) noexcept {
  const double steps = std::ceil(recovery_gap_us(p) / step_us);
  return steps <= 1 ? 1 : (steps - 1) * key_block + 1;
}

}  // namespace xstage::model
