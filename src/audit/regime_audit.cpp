#include "audit/regime_audit.hpp"

#include <algorithm>
#include <limits>

namespace xstage {

namespace {

constexpr double unlimited = std::numeric_limits<double>::infinity();

void add_once(std::vector<std::string>& reasons, const std::vector<std::string>& more) {
  for (const std::string& reason : more) {
    if (std::find(reasons.begin(), reasons.end(), reason) == reasons.end()) {
      reasons.push_back(reason);
    }
  }
}

RegimeAudit undecided(Regime regime, const AuditPoints& points) {
  RegimeAudit result;
  result.regime = regime;
  result.test = {not_measured, not_measured};
  add_once(result.reasons, points.all.reasons);
  if (regime == Regime::aligned) {
    add_once(result.reasons, points.coincident.reasons);
  }
  return result;
}

void set_times(RegimeAudit& result, const model::OperatingPoint& all, double gap_us) {
  const double stall_us = result.rate_price_us + result.capacity_price_us;
  result.issue_us = all.issue_floor_us + stall_us;
  result.period_us = result.issue_us + gap_us;
  result.stall_share = stall_us > 0 ? stall_us / result.period_us : 0.0;
}

/// Free-running producers make a smooth flow (spec: the free-running law holds at any volume), so the only bound is
/// that the flow is no faster than the drain.
RegimeAudit audit_free_running(const AuditPoints& points, double gap_us) {
  if (!points.all.usable) {
    return undecided(Regime::free_running, points);
  }
  const model::OperatingPoint& all = points.all.point;
  RegimeAudit result;
  result.regime = Regime::free_running;
  result.test = {model::design_test(all, gap_us).rate_margin_us, unlimited};
  result.verdict = result.test.rate_holds() ? Verdict::piggyback : Verdict::reshape;
  result.rate_price_us = model::free_running::issue_overhead_us(all, gap_us);
  result.capacity_price_us = 0;
  result.completion_coupled_period_us = model::completion_coupled::period_us(all, gap_us);
  set_times(result, all, gap_us);
  return result;
}

/// Whether the capacity bound can be decided: Q is needed only if the burst leaves something outstanding when its issue
/// ends.
bool capacity_is_known(const OperatingPointOrReason& coincident) {
  return coincident.capacity_known || model::peak_outstanding_bytes(coincident.point) <= 0;
}

/// Aligned producers store at the same moment. Their steady-state issue time is V/R - min(G, Q/R), the larger of the
/// rate overhead and that of an isolated burst. The rate bound counts all producers, the capacity bound only those that
/// coincide; what the others have outstanding at that moment is not counted against Q.
RegimeAudit audit_aligned(const AuditPoints& points, double gap_us) {
  if (!points.all.usable || !points.coincident.usable) {
    return undecided(Regime::aligned, points);
  }
  const model::OperatingPoint& all = points.all.point;
  const model::OperatingPoint& coincident = points.coincident.point;
  RegimeAudit result;
  result.regime = Regime::aligned;
  result.test.rate_margin_us = model::design_test(all, gap_us).rate_margin_us;
  result.rate_price_us = model::free_running::issue_overhead_us(all, gap_us);
  result.completion_coupled_period_us = model::completion_coupled::period_us(all, gap_us);
  if (!capacity_is_known(points.coincident)) {
    result.test.capacity_margin_bytes = not_measured;
    result.verdict = result.test.rate_holds() ? Verdict::cannot_decide : Verdict::reshape;
    add_once(result.reasons, points.coincident.reasons);
    return result;
  }
  // If Q is unknown and not needed, it holds at least what the burst leaves outstanding: nothing.
  result.test.capacity_margin_bytes =
      points.coincident.capacity_known ? model::design_test(coincident, gap_us).capacity_margin_bytes : 0.0;
  result.verdict = result.test.holds() ? Verdict::piggyback : Verdict::reshape;
  const double isolated_overhead_us =
      points.coincident.capacity_known ? model::isolated_issue_us(coincident) - coincident.issue_floor_us : 0.0;
  result.capacity_price_us = std::max(0.0, isolated_overhead_us - result.rate_price_us);
  set_times(result, all, gap_us);
  return result;
}

}  // namespace

int coincident_producers(const Workload& workload) {
  return workload.coincident_producers == 0 ? workload.producers : workload.coincident_producers;
}

AuditPoints audit_points(const Platform& platform, const Workload& workload) {
  return {operating_point(platform, workload.path, workload.producers, workload.bytes),
          operating_point(platform, workload.path, coincident_producers(workload), workload.bytes)};
}

RegimeAudit audit_regime(const AuditPoints& points, double gap_us, Regime regime) {
  return regime == Regime::aligned ? audit_aligned(points, gap_us) : audit_free_running(points, gap_us);
}

Verdict verdict_of(const Platform& platform, const Workload& workload, Regime regime) {
  return audit_regime(audit_points(platform, workload), workload.gap_us, regime).verdict;
}

}  // namespace xstage
