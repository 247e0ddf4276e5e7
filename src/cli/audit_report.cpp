#include "cli/audit_report.hpp"

#include <fmt/format.h>

#include <cmath>
#include <sstream>
#include <string>

#include "cli/quantities.hpp"
#include "cli/table.hpp"
#include "cli/wording.hpp"

namespace xstage::cli {

namespace {

constexpr std::size_t line_width = 100;

/// Words of `text` in lines of at most `line_width`.
void print_wrapped(std::ostream& out, const std::string& text) {
  std::istringstream words(text);
  std::string line;
  for (std::string word; words >> word;) {
    if (!line.empty() && line.size() + 1 + word.size() > line_width) {
      out << "  " << line << '\n';
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
  }
  if (!line.empty()) {
    out << "  " << line << '\n';
  }
}

void print_workload(std::ostream& out, const Workload& workload) {
  out << "Kernel" << (workload.name.empty() ? "" : ": " + workload.name) << '\n';
  print_wrapped(out, workload.description);
  Listing listing;
  listing.add("producers (CTAs that store remote tiles)", std::to_string(workload.producers));
  listing.add("of them at a tile boundary together",
              workload.coincident_producers == 0 ? "all" : std::to_string(workload.coincident_producers));
  listing.add("remote tile of one producer", fmt::format("{:.0f} bytes ({}), {}", workload.bytes,
                                                         bytes_text(workload.bytes), words_of(workload.path)));
  listing.add("gap between two remote tiles (microseconds)", fixed(workload.gap_us, 2));
  listing.print(out);
}

std::string bound_text(double margin_value, const std::string& margin_text) {
  if (std::isnan(margin_value)) {
    return "cannot decide";
  }
  if (std::isinf(margin_value)) {
    return "not binding";
  }
  return margin_text + (margin_value >= 0 ? " holds" : " VIOLATED");
}

void print_regimes(std::ostream& out, const Audit& audit) {
  const RegimeAudit& free_running = audit.free_running;
  const RegimeAudit& aligned = audit.aligned;
  Table table({"", "free-running", "aligned"});
  table.left_align(1);
  const auto row = [&](const char* name, const auto& cell) {
    table.add_row({name, cell(free_running), cell(aligned)});
  };
  row("verdict", [](const RegimeAudit& a) { return std::string(name_of(a.verdict)); });
  row("rate bound: gap beyond the recovery gap (microseconds)",
      [](const RegimeAudit& a) { return bound_text(a.test.rate_margin_us, margin(a.test.rate_margin_us, 2)); });
  row("capacity bound: capacity beyond the peak (KiB)", [](const RegimeAudit& a) {
    return bound_text(a.test.capacity_margin_bytes, margin(a.test.capacity_margin_bytes / 1024, 0));
  });
  row("issue time of one tile (microseconds)", [](const RegimeAudit& a) { return fixed(a.issue_us, 2); });
  row("tile time: issue and gap (microseconds)", [](const RegimeAudit& a) { return fixed(a.period_us, 2); });
  row("price of the rate bound (microseconds per tile)",
      [](const RegimeAudit& a) { return fixed(a.rate_price_us, 2); });
  row("price of the capacity bound (microseconds per tile)",
      [](const RegimeAudit& a) { return fixed(a.capacity_price_us, 2); });
  row("both prices as a share of the tile time", [](const RegimeAudit& a) { return percent(a.stall_share); });
  row("tile time if the CTA waited for completion (microseconds)",
      [](const RegimeAudit& a) { return fixed(a.completion_coupled_period_us, 2); });
  table.print(out);
}

void print_reasons(std::ostream& out, const RegimeAudit& regime) {
  for (const std::string& reason : regime.reasons) {
    out << "  not known for " << words_of(regime.regime) << " producers: " << reason << '\n';
  }
  if (!regime.measurement.empty()) {
    out << "  what would decide it: " << regime.measurement << '\n';
  }
}

/// "gap (now 104.00 microseconds)".
std::string knob_text(const Flip& flip) {
  const int decimals = flip.unit == "microseconds" ? 2 : 0;
  const std::string unit = flip.unit == "producers" ? "" : " " + flip.unit;
  return fmt::format("{} (now {}{})", flip.knob, fixed(flip.current, decimals), unit);
}

void print_flips(std::ostream& out, const Audit& audit, const RegimeAudit& regime, std::string_view name) {
  if (regime.verdict == Verdict::cannot_decide) {
    return;
  }
  Listing listing;
  for (const Flip& flip : audit.flips) {
    if (flip.regime == regime.regime) {
      listing.add(knob_text(flip), flip.meaning);
    }
  }
  out << fmt::format("\nWhat would change the verdict '{}' of {} producers, one knob at a time\n",
                     name_of(regime.verdict), name);
  listing.print(out);
}

void print_notes(std::ostream& out, const Audit& audit) {
  out << "\nHow to read this\n"
         "  piggyback: the CTA that owns a tile may store it and go on; reshape: move useful work between the tiles,\n"
         "  shrink them, or stagger the producers. Producers that start together (kernel start, wave boundary, "
         "barrier)\n"
         "  are aligned; otherwise the first stall disperses them, their flow is smooth, and only the rate binds.\n";
  const double slots = audit.workload.staging_slots;
  if (slots > 1) {
    out << fmt::format(
        "  Staging: {:g} slots absorb a one-off delay of up to {:g} tile time(s). In steady state they change "
        "nothing:\n"
        "  whatever the queue, every tile's bytes must drain.\n",
        slots, slots - 1);
  }
}

}  // namespace

void print_audit(std::ostream& out, const Platform& platform, const Audit& audit) {
  print_workload(out, audit.workload);
  out << "\nPlatform " << node_line(platform.node) << '\n';
  operating_point_listing(
      operating_point(platform, audit.workload.path, audit.workload.producers, audit.workload.bytes))
      .print(out);
  out << '\n';
  print_regimes(out, audit);
  print_reasons(out, audit.free_running);
  print_reasons(out, audit.aligned);
  print_flips(out, audit, audit.free_running, "free-running");
  print_flips(out, audit, audit.aligned, "aligned");
  print_notes(out, audit);
}

}  // namespace xstage::cli
