#include "cli/profile_report.hpp"

#include <fmt/format.h>

#include <cmath>

#include "cli/quantities.hpp"
#include "cli/table.hpp"
#include "cli/wording.hpp"
#include "xstage/files.hpp"

namespace xstage::cli {

namespace {

std::string with_interval(const Estimate& estimate) {
  if (!estimate.value) {
    return "not known: " + estimate.reason;
  }
  if (!std::isfinite(estimate.low) || !std::isfinite(estimate.high)) {
    return fmt::format("{:.1f}  ({} sample{}: no interval)", *estimate.value, estimate.points,
                       estimate.points == 1 ? "" : "s");
  }
  return fmt::format("{:.1f}  (95% interval {:.1f} to {:.1f}, {} samples)", *estimate.value, estimate.low,
                     estimate.high, estimate.points);
}

std::string issue_floor_text(const PathProfile& path) {
  if (path.issue_floor.empty()) {
    return "not known: " + path.issue_floor_reason;
  }
  const IssueFloorPoint& first = path.issue_floor.front();
  const IssueFloorPoint& last = path.issue_floor.back();
  return fmt::format("{:.2f} at {} to {:.2f} at {} per producer", first.issue_us, bytes_text(first.bytes_per_producer),
                     last.issue_us, bytes_text(last.bytes_per_producer));
}

std::string unevenness_text(const Estimate& estimate) {
  return estimate.value ? percent(*estimate.value) : "not known: " + estimate.reason;
}

void print_capacity(std::ostream& out, const PathProfile& path) {
  if (path.capacity.empty()) {
    return;
  }
  out << "    outstanding capacity Q of producers that store together (aligned)\n";
  Table table({"producers", "capacity\n(KiB)", "knee\n(KiB per producer)"});
  for (const CapacityPoint& point : path.capacity) {
    table.add_row({std::to_string(point.producers), fixed(point.capacity_bytes.value.value_or(not_measured) / 1024, 0),
                   fixed(point.knee_bytes_per_producer / 1024, 1)});
  }
  table.print(out, "      ");
  for (const CapacityPoint& point : path.capacity) {
    if (!point.capacity_bytes.value) {
      out << fmt::format("      none at {} producers: {}\n", point.producers, point.capacity_bytes.reason);
    }
  }
}

void print_path(std::ostream& out, const PathProfile& path) {
  out << "  " << words_of(path.path) << '\n';
  Listing listing;
  listing.add("drain rate R (GB/s)", with_interval(path.drain_gb_per_s));
  listing.add("one producer's own rate (GB/s)", with_interval(path.producer_drain_gb_per_s));
  listing.add("unevenness of the drain between two halves of the producers", unevenness_text(path.drain_unevenness));
  listing.add("issue time without back-pressure T_iss0 (microseconds)", issue_floor_text(path));
  listing.add("fit: error of the drain-bound period (median, worst)",
              percent(path.goodness.drain_median_error) + ", " + percent(path.goodness.drain_worst_error));
  listing.print(out, "    ");
  print_capacity(out, path);
}

}  // namespace

void print_profile(std::ostream& out, const Platform& platform) {
  out << "Platform " << node_line(platform.node) << '\n';
  for (const PathProfile& path : platform.paths) {
    print_path(out, path);
  }
  for (const PairDrain& pair : platform.pairs) {
    out << fmt::format("  device {} to device {}: drain rate R (GB/s)  {}\n", pair.source, pair.destination,
                       with_interval(pair.drain_gb_per_s));
  }
  if (platform.link_counter_ratio.value) {
    out << fmt::format("  referee: the link counters saw {:.4f} bytes per byte stored\n",
                       *platform.link_counter_ratio.value);
  } else if (!platform.link_counter_ratio.reason.empty()) {
    out << "  referee: no link counters: " << platform.link_counter_ratio.reason << '\n';
  }
}

Json profile_json(const Platform& platform) { return Json::parse(format_platform(platform)); }

}  // namespace xstage::cli
