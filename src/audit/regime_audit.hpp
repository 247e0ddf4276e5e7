#pragma once
/// The design test and its prices for one regime: what `audit` reports and what the search for flips evaluates.

#include "xstage/audit.hpp"

namespace xstage {

/// The profile at all producers (rate bound) and at those that coincide (capacity bound).
struct AuditPoints {
  OperatingPointOrReason all;
  OperatingPointOrReason coincident;
};

/// K_act as a number: 0 in the workload means that all producers coincide.
[[nodiscard]] int coincident_producers(const Workload& workload);

[[nodiscard]] AuditPoints audit_points(const Platform& platform, const Workload& workload);

[[nodiscard]] RegimeAudit audit_regime(const AuditPoints& points, double gap_us, Regime regime);

/// The verdict alone, by the two functions above.
[[nodiscard]] Verdict verdict_of(const Platform& platform, const Workload& workload, Regime regime);

}  // namespace xstage
