#include <cmath>
#include <cstdint>

#include "audit/regime_audit.hpp"
#include "cli/audit_report.hpp"

namespace xstage::cli {

namespace {

Json workload_json(const Workload& workload) {
  return {
      {"name", workload.name},
      {"description", workload.description},
      {"path", name_of(workload.path)},
      {"producers", workload.producers},
      {"coincident_producers", workload.coincident_producers == 0 ? workload.producers : workload.coincident_producers},
      {"bytes_per_producer", static_cast<std::int64_t>(workload.bytes)},
      {"gap_us", workload.gap_us},
      {"staging_slots", workload.staging_slots}};
}

/// `holds` is null where the profile cannot decide; a null margin that holds has no bound.
Json bound_json(double margin, const char* margin_name, double price_us) {
  Json holds = nullptr;
  if (!std::isnan(margin)) {
    holds = margin >= 0;
  }
  return {{"holds", holds}, {margin_name, margin}, {"price_us", price_us}};
}

Json regime_json(const RegimeAudit& regime) {
  return {{"verdict", name_of(regime.verdict)},
          {"rate_bound", bound_json(regime.test.rate_margin_us, "margin_us", regime.rate_price_us)},
          {"capacity_bound", bound_json(regime.test.capacity_margin_bytes, "margin_bytes", regime.capacity_price_us)},
          {"issue_us", regime.issue_us},
          {"period_us", regime.period_us},
          {"stall_share", regime.stall_share},
          {"completion_coupled_period_us", regime.completion_coupled_period_us},
          {"reasons", regime.reasons},
          {"measurement", regime.measurement.empty() ? Json(nullptr) : Json(regime.measurement)}};
}

}  // namespace

Json audit_json(const Platform& platform, const Audit& audit) {
  Json flips = Json::array();
  for (const Flip& flip : audit.flips) {
    flips.push_back({{"regime", name_of(flip.regime)},
                     {"knob", flip.knob},
                     {"unit", flip.unit},
                     {"current", flip.current},
                     {"flips_at", flip.flips_at ? Json(*flip.flips_at) : Json(nullptr)},
                     {"meaning", flip.meaning}});
  }
  const Workload& workload = audit.workload;
  const auto numbers_at = [&](int producers) {
    return to_json(operating_point(platform, workload.path, producers, workload.bytes));
  };
  return {{"schema", "xstage.audit/1"},
          {"platform", platform.node.name},
          {"workload", workload_json(workload)},
          {"operating_point", numbers_at(workload.producers)},
          {"coincident_operating_point", numbers_at(coincident_producers(workload))},
          {"free_running", regime_json(audit.free_running)},
          {"aligned", regime_json(audit.aligned)},
          {"flips", flips}};
}

}  // namespace xstage::cli
