/// Reading platform profiles: "xstage.platform/1", docs/profile-format.md.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "files/json_reader.hpp"
#include "files/node_json.hpp"
#include "xstage/error.hpp"
#include "xstage/files.hpp"

namespace xstage {
namespace {

using namespace files;

/// A rate far beyond any fabric; the bound keeps products of a profile's numbers finite.
constexpr double largest_rate_gb_per_s = 1e9;
constexpr double largest_time_us = 1e12;
constexpr double largest_bytes = 0x1p50;
/// An unevenness of 1 would leave nothing of the drain to the disfavoured half.
constexpr double largest_unevenness = 0.99;

enum class Sign { positive, not_negative };

Estimate read_estimate(const JsonValue& value, Sign sign, double maximum) {
  value.allow_only({"value", "low", "high", "points", "reason"});
  Estimate estimate;
  const JsonValue number = value.member("value");
  if (!number.is_null()) {
    estimate.value = number.number(0, maximum);
    if (sign == Sign::positive && *estimate.value <= 0) {
      number.fail("must be greater than 0");
    }
  }
  estimate.low = value.member("low").number_or_null(-maximum, maximum);
  estimate.high = value.member("high").number_or_null(-maximum, maximum);
  if (estimate.low > estimate.high) {
    value.member("low").fail(fmt::format("must not exceed high, {}", estimate.high));
  }
  estimate.points = value.member("points").small_integer(0);
  if (const auto reason = value.optional_member("reason")) {
    estimate.reason = reason->non_empty_text();
  } else if (!estimate.value) {
    value.fail("a value of null needs a \"reason\"");
  }
  return estimate;
}

IssueFloorPoint read_issue_floor_point(const JsonValue& value) {
  value.allow_only({"bytes_per_producer", "issue_us"});
  IssueFloorPoint point;
  const JsonValue bytes = value.member("bytes_per_producer");
  point.bytes_per_producer = bytes.number(1, largest_bytes);
  point.issue_us = value.member("issue_us").number(0, largest_time_us);
  return point;
}

void read_issue_floor(const JsonValue& path, PathProfile& profile) {
  const JsonValue points = path.member("issue_floor");
  for (const JsonValue& value : points.elements()) {
    const IssueFloorPoint point = read_issue_floor_point(value);
    if (!profile.issue_floor.empty() && point.bytes_per_producer <= profile.issue_floor.back().bytes_per_producer) {
      value.member("bytes_per_producer").fail("must be greater than that of the point before");
    }
    profile.issue_floor.push_back(point);
  }
  if (const auto reason = path.optional_member("issue_floor_reason")) {
    profile.issue_floor_reason = reason->non_empty_text();
  } else if (profile.issue_floor.empty()) {
    points.fail("without points the path needs an \"issue_floor_reason\"");
  }
}

CapacityPoint read_capacity_point(const JsonValue& value, int most_producers) {
  value.allow_only({"producers", "capacity_bytes", "knee_bytes_per_producer", "median_error"});
  CapacityPoint point;
  point.producers = value.member("producers").small_integer(1, most_producers);
  point.capacity_bytes = read_estimate(value.member("capacity_bytes"), Sign::not_negative, largest_bytes);
  point.knee_bytes_per_producer = value.member("knee_bytes_per_producer").number_or_null(0, largest_bytes);
  point.median_error = value.member("median_error").number_or_null(0);
  return point;
}

std::vector<CapacityPoint> read_capacity(const JsonValue& value, int most_producers) {
  std::vector<CapacityPoint> points;
  for (const JsonValue& element : value.elements()) {
    const CapacityPoint point = read_capacity_point(element, most_producers);
    if (!points.empty() && point.producers <= points.back().producers) {
      element.member("producers").fail("must be greater than that of the point before");
    }
    points.push_back(point);
  }
  return points;
}

GoodnessOfFit read_goodness(const JsonValue& value) {
  value.allow_only({"drain_median_error", "drain_worst_error", "floor_worst_error"});
  GoodnessOfFit goodness;
  goodness.drain_median_error = value.member("drain_median_error").number_or_null(0);
  goodness.drain_worst_error = value.member("drain_worst_error").number_or_null(0);
  goodness.floor_worst_error = value.member("floor_worst_error").number_or_null(0);
  return goodness;
}

int read_threads(const JsonValue& value) {
  const int threads = value.small_integer(32, 1024);
  if (threads % 32 != 0) {
    value.fail("must be a multiple of 32");
  }
  return threads;
}

PathProfile read_path(const JsonValue& value, int most_producers) {
  value.allow_only({"store_path", "threads_per_producer", "drain_gb_per_s", "producer_drain_gb_per_s",
                    "drain_unevenness", "issue_floor", "issue_floor_reason", "capacity", "goodness_of_fit"});
  PathProfile profile;
  profile.path = value.member("store_path").name<StorePath>();
  profile.threads = read_threads(value.member("threads_per_producer"));
  profile.drain_gb_per_s = read_estimate(value.member("drain_gb_per_s"), Sign::positive, largest_rate_gb_per_s);
  profile.producer_drain_gb_per_s =
      read_estimate(value.member("producer_drain_gb_per_s"), Sign::positive, largest_rate_gb_per_s);
  // Optional, so that profiles from before this number was fitted stay readable.
  if (const auto unevenness = value.optional_member("drain_unevenness")) {
    profile.drain_unevenness = read_estimate(*unevenness, Sign::not_negative, largest_unevenness);
  } else {
    profile.drain_unevenness.reason = "not fitted by the tool that wrote this profile";
  }
  read_issue_floor(value, profile);
  profile.capacity = read_capacity(value.member("capacity"), most_producers);
  profile.goodness = read_goodness(value.member("goodness_of_fit"));
  return profile;
}

std::vector<PathProfile> read_profiles(const JsonValue& value, int most_producers) {
  std::vector<PathProfile> paths;
  std::set<StorePath> seen;
  for (const JsonValue& element : value.elements()) {
    paths.push_back(read_path(element, most_producers));
    if (!seen.insert(paths.back().path).second) {
      element.member("store_path").fail("appears twice");
    }
  }
  if (paths.empty()) {
    value.fail("must hold at least one store path");
  }
  return paths;
}

std::vector<PairDrain> read_pairs(const JsonValue& value, int devices) {
  std::vector<PairDrain> pairs;
  std::set<std::pair<int, int>> seen;
  for (const JsonValue& element : value.elements()) {
    element.allow_only({"source_device", "destination_device", "drain_gb_per_s"});
    PairDrain pair;
    pair.source = element.member("source_device").small_integer(0, devices - 1);
    pair.destination = element.member("destination_device").small_integer(0, devices - 1);
    pair.drain_gb_per_s = read_estimate(element.member("drain_gb_per_s"), Sign::positive, largest_rate_gb_per_s);
    if (pair.source == pair.destination || !seen.emplace(pair.source, pair.destination).second) {
      element.member("destination_device").fail("must differ from the source, and each ordered pair appears once");
    }
    pairs.push_back(pair);
  }
  return pairs;
}

int multiprocessors_of_largest(const NodeDescription& node) {
  int most = 0;
  for (const Device& device : node.devices) {
    most = std::max(most, device.multiprocessors);
  }
  return most;
}

}  // namespace

Platform parse_platform(std::string_view text, std::string_view origin) {
  const JsonDocument document(text, origin, platform_schema);
  const JsonValue root = document.root();
  root.allow_only({"schema", "node", "paths", "pairs", "link_counter_ratio"});
  Platform platform;
  platform.node = read_node(root.member("node"));
  platform.paths = read_profiles(root.member("paths"), multiprocessors_of_largest(platform.node));
  platform.pairs = read_pairs(root.member("pairs"), static_cast<int>(platform.node.devices.size()));
  platform.link_counter_ratio =
      read_estimate(root.member("link_counter_ratio"), Sign::not_negative, largest_rate_gb_per_s);
  return platform;
}

Platform read_platform(const std::filesystem::path& path) { return parse_platform(read_text(path), path.string()); }

}  // namespace xstage
