#include "audit/undecided.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "audit/regime_audit.hpp"

namespace xstage {

std::string deciding_measurement(const Workload& workload, Regime regime) {
  const bool aligned = regime == Regime::aligned;
  return fmt::format("xstage measure --node NODE --producers {} --bytes {:.0f} --gap-us {} --path {} --regime {}",
                     aligned ? coincident_producers(workload) : workload.producers, workload.bytes, workload.gap_us,
                     name_of(workload.path), aligned ? "aligned" : "free-running");
}

std::string why_undecided(const Platform& platform, const Workload& workload, Regime regime) {
  const RegimeAudit found = audit_regime(audit_points(platform, workload), workload.gap_us, regime);
  if (found.verdict != Verdict::cannot_decide) {
    return "";
  }
  return fmt::format(" Not known: {}. Measure it: {}", fmt::join(found.reasons, "; "),
                     deciding_measurement(workload, regime));
}

}  // namespace xstage
