#include "cli/audit_outcome.hpp"

#include <cmath>

namespace xstage::cli {

namespace {

/// The capacity price may be unknown where the rate bound fails. The rate's price alone is then the least that is lost.
Outcome within_tolerance(const RegimeAudit& regime, double issue_floor_us, double gap_us, double max_stall) {
  if (!std::isnan(regime.stall_share)) {
    return regime.stall_share <= max_stall ? Outcome::passed : Outcome::failed;
  }
  const double least = regime.rate_price_us / (issue_floor_us + gap_us + regime.rate_price_us);
  return least > max_stall ? Outcome::failed : Outcome::not_decided;
}

Outcome outcome_of_regime(const Audit& audit, const RegimeAudit& regime, double max_stall) {
  switch (regime.verdict) {
    case Verdict::piggyback:
      return Outcome::passed;
    case Verdict::reshape:
      if (max_stall > 0) {
        return within_tolerance(regime, audit.all_producers.issue_floor_us, audit.workload.gap_us, max_stall);
      }
      return Outcome::failed;
    case Verdict::cannot_decide:
      break;
  }
  return Outcome::not_decided;
}

Outcome both(Outcome one, Outcome other) {
  if (one == Outcome::failed || other == Outcome::failed) {
    return Outcome::failed;
  }
  return one == Outcome::passed ? other : one;
}

}  // namespace

std::string_view words_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::passed:
      return "passed";
    case Outcome::failed:
      return "NOT passed";
    case Outcome::not_decided:
      break;
  }
  return "cannot decide";
}

Outcome outcome_of(const Audit& audit, std::string_view regime, double max_stall) {
  const Outcome free_running = outcome_of_regime(audit, audit.free_running, max_stall);
  const Outcome aligned = outcome_of_regime(audit, audit.aligned, max_stall);
  if (regime == "aligned") {
    return aligned;
  }
  return regime == "free-running" ? free_running : both(free_running, aligned);
}

}  // namespace xstage::cli
