#include "xstage/audit.hpp"

#include <fmt/format.h>

#include <cmath>

#include "audit/flips.hpp"
#include "audit/regime_audit.hpp"
#include "audit/undecided.hpp"
#include "xstage/error.hpp"

namespace xstage {

namespace {

/// Checks the rules of the workload itself. operating_point() checks those that need the platform (K within its SMs, B
/// a multiple of the store width).
void check_workload(const Workload& workload) {
  if (workload.producers < 1) {
    throw InputError(fmt::format("workload: producers = {}; must be at least 1", workload.producers));
  }
  if (workload.coincident_producers < 0 || workload.coincident_producers > workload.producers) {
    throw InputError(fmt::format("workload: coincident producers = {}; must lie between 0 (all) and producers = {}",
                                 workload.coincident_producers, workload.producers));
  }
  if (!std::isfinite(workload.bytes) || workload.bytes < 1 || workload.bytes != std::floor(workload.bytes)) {
    throw InputError(fmt::format("workload: bytes = {}; must be a whole number of at least 1", workload.bytes));
  }
  if (!std::isfinite(workload.gap_us) || workload.gap_us < 0) {
    throw InputError(fmt::format("workload: gap = {} microseconds; must be finite and not negative", workload.gap_us));
  }
  if (!std::isfinite(workload.staging_slots) || workload.staging_slots < 1) {
    throw InputError(
        fmt::format("workload: staging slots = {}; must be finite and at least 1", workload.staging_slots));
  }
}

}  // namespace

std::string_view name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::piggyback:
      return "piggyback";
    case Verdict::reshape:
      return "reshape";
    case Verdict::cannot_decide:
      break;
  }
  return "cannot decide";
}

Audit audit(const Platform& platform, const Workload& workload) {
  check_workload(workload);
  const AuditPoints points = audit_points(platform, workload);
  Audit result;
  result.workload = workload;
  result.all_producers = points.all.point;
  result.coincident = points.coincident.point;
  result.aligned = audit_regime(points, workload.gap_us, Regime::aligned);
  result.free_running = audit_regime(points, workload.gap_us, Regime::free_running);
  for (RegimeAudit* regime : {&result.free_running, &result.aligned}) {
    if (regime->verdict == Verdict::cannot_decide) {
      regime->measurement = deciding_measurement(workload, regime->regime);
    }
    const std::vector<Flip> flips = find_flips(platform, workload, regime->regime, regime->verdict);
    result.flips.insert(result.flips.end(), flips.begin(), flips.end());
  }
  return result;
}

}  // namespace xstage
