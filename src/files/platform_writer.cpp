/// Writing platform profiles: "xstage.platform/1", docs/profile-format.md.

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "files/node_json.hpp"
#include "xstage/error.hpp"
#include "xstage/files.hpp"

namespace xstage {
namespace {

using files::number_or_null;
using nlohmann::ordered_json;

ordered_json write_estimate(const Estimate& estimate) {
  ordered_json result{{"value", number_or_null(estimate.value.value_or(not_measured))},
                      {"low", number_or_null(estimate.low)},
                      {"high", number_or_null(estimate.high)},
                      {"points", estimate.points}};
  if (!estimate.reason.empty()) {
    result["reason"] = estimate.reason;
  }
  return result;
}

ordered_json write_capacity_point(const CapacityPoint& point) {
  return {{"producers", point.producers},
          {"capacity_bytes", write_estimate(point.capacity_bytes)},
          {"knee_bytes_per_producer", number_or_null(point.knee_bytes_per_producer)},
          {"median_error", number_or_null(point.median_error)}};
}

ordered_json write_goodness(const GoodnessOfFit& goodness) {
  return {{"drain_median_error", number_or_null(goodness.drain_median_error)},
          {"drain_worst_error", number_or_null(goodness.drain_worst_error)},
          {"floor_worst_error", number_or_null(goodness.floor_worst_error)}};
}

ordered_json write_issue_floor(const PathProfile& profile) {
  ordered_json points = ordered_json::array();
  for (const IssueFloorPoint& point : profile.issue_floor) {
    points.push_back({{"bytes_per_producer", number_or_null(point.bytes_per_producer)},
                      {"issue_us", number_or_null(point.issue_us)}});
  }
  return points;
}

ordered_json write_path(const PathProfile& profile) {
  ordered_json result{{"store_path", name_of(profile.path)},
                      {"threads_per_producer", profile.threads},
                      {"drain_gb_per_s", write_estimate(profile.drain_gb_per_s)},
                      {"producer_drain_gb_per_s", write_estimate(profile.producer_drain_gb_per_s)},
                      {"drain_unevenness", write_estimate(profile.drain_unevenness)},
                      {"issue_floor", write_issue_floor(profile)}};
  if (!profile.issue_floor_reason.empty()) {
    result["issue_floor_reason"] = profile.issue_floor_reason;
  }
  result["capacity"] = ordered_json::array();
  for (const CapacityPoint& point : profile.capacity) {
    result["capacity"].push_back(write_capacity_point(point));
  }
  result["goodness_of_fit"] = write_goodness(profile.goodness);
  return result;
}

ordered_json write_pair(const PairDrain& pair) {
  return {{"source_device", pair.source},
          {"destination_device", pair.destination},
          {"drain_gb_per_s", write_estimate(pair.drain_gb_per_s)}};
}

ordered_json write_platform(const Platform& platform) {
  ordered_json result{{"schema", platform_schema}, {"node", files::write_node(platform.node)}};
  result["paths"] = ordered_json::array();
  for (const PathProfile& profile : platform.paths) {
    result["paths"].push_back(write_path(profile));
  }
  result["pairs"] = ordered_json::array();
  for (const PairDrain& pair : platform.pairs) {
    result["pairs"].push_back(write_pair(pair));
  }
  result["link_counter_ratio"] = write_estimate(platform.link_counter_ratio);
  return result;
}

std::string to_text(const ordered_json& document) {
  try {
    return document.dump(2) + "\n";
  } catch (const ordered_json::type_error& error) {
    throw InputError(fmt::format("platform profile: a text is not UTF-8: {}", error.what()));
  }
}

}  // namespace

std::string format_platform(const Platform& platform) {
  std::string text = to_text(write_platform(platform));
  // The reader checks the rules, so that a profile which it would refuse is never written.
  (void)parse_platform(text, "platform profile");
  return text;
}

}  // namespace xstage
