/// Evaluates a platform profile at one producer count and burst size.

#include "xstage/platform.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "xstage/error.hpp"

namespace xstage {
namespace {

constexpr double bytes_per_us_of_one_gb_per_s = 1000;
/// The same bound as for experiments; it keeps K*B exact in a double.
constexpr double largest_bytes = 0x1p50;

void check_producers(const Platform& platform, int producers) {
  int most = 0;
  for (const Device& device : platform.node.devices) {
    most = std::max(most, device.multiprocessors);
  }
  if (producers < 1 || producers > most) {
    throw InputError(fmt::format("producers {}: must be from 1 to {}, the multiprocessors of a device of {}", producers,
                                 most, platform.node.name));
  }
}

void check_bytes(StorePath path, double bytes) {
  const int width = store_width_bytes(path);
  if (!(bytes >= 1 && bytes <= largest_bytes) || std::fmod(bytes, width) != 0) {
    throw InputError(
        fmt::format("bytes per producer {}: must be from 1 to 2^50 and divisible by {}, the store width of {}", bytes,
                    width, name_of(path)));
  }
}

double line_through(const IssueFloorPoint& a, const IssueFloorPoint& b, double bytes) {
  const double slope = (b.issue_us - a.issue_us) / (b.bytes_per_producer - a.bytes_per_producer);
  return a.issue_us + slope * (bytes - a.bytes_per_producer);
}

/// Floor of a burst below the smallest calibrated one. An issue has a fixed cost and a cost per byte, so the floor lies
/// between proportionality (no fixed cost) and the first value (no cost per byte), and the first segment says where. A
/// table of one point gives the lower bound, which promises less.
double issue_floor_below(const std::vector<IssueFloorPoint>& points, double bytes) {
  const IssueFloorPoint& first = points.front();
  const double proportional = first.issue_us * bytes / first.bytes_per_producer;
  if (points.size() == 1) {
    return proportional;
  }
  return std::clamp(line_through(points[0], points[1], bytes), proportional, first.issue_us);
}

/// Floor of a burst beyond the largest calibrated one: it continues with the last slope and never falls, since a longer
/// burst is not cheaper and a falling last segment is noise. A table of one point gives a constant, which again
/// promises less.
double issue_floor_beyond(const std::vector<IssueFloorPoint>& points, double bytes) {
  const IssueFloorPoint& last = points.back();
  if (points.size() == 1) {
    return last.issue_us;
  }
  return std::max(last.issue_us, line_through(points[points.size() - 2], last, bytes));
}

/// Whether the fabric is proven to be the bound: where a knee was found, this number of producers outran the fabric,
/// and so do more producers.
bool fabric_bound_is_proven(const PathProfile& profile, int producers) {
  return std::any_of(profile.capacity.begin(), profile.capacity.end(), [&](const CapacityPoint& point) {
    return point.producers <= producers && point.capacity_bytes.value.has_value();
  });
}

/// Records that the profile lacks a number without which this point cannot be evaluated.
void give_up(OperatingPointOrReason& result, std::string reason) {
  result.usable = false;
  result.reasons.push_back(std::move(reason));
}

/// Sets R(K) = min(K * producer rate, R). Returns whether the producers alone bound it.
bool set_drain_rate(const PathProfile& profile, int producers, OperatingPointOrReason& result) {
  const Estimate& fabric = profile.drain_gb_per_s;
  const Estimate& producer = profile.producer_drain_gb_per_s;
  if (!fabric.value) {
    give_up(result, fmt::format("drain rate R unknown: {}", fabric.reason));
    return false;
  }
  if (!producer.value && !fabric_bound_is_proven(profile, producers)) {
    give_up(result,
            fmt::format("drain rate R({}) unknown: the rate of one producer is not known ({}), and no capacity at "
                        "{} or fewer producers shows that they reach the fabric's rate",
                        producers, producer.reason, producers));
    return false;
  }
  const double of_producers = producer.value ? producers * *producer.value : *fabric.value;
  result.point.drain_bytes_per_us = std::min(of_producers, *fabric.value) * bytes_per_us_of_one_gb_per_s;
  return of_producers < *fabric.value;
}

void set_issue_floor(const PathProfile& profile, double bytes, OperatingPointOrReason& result) {
  if (profile.issue_floor.empty()) {
    give_up(result, fmt::format("issue time without back-pressure T_iss0 unknown: {}", profile.issue_floor_reason));
    return;
  }
  result.point.issue_floor_us = issue_floor_us(profile.issue_floor, bytes);
  const double smallest = profile.issue_floor.front().bytes_per_producer;
  const double largest = profile.issue_floor.back().bytes_per_producer;
  result.extrapolated_beyond_bytes = bytes > largest ? largest : not_measured;
  result.extrapolated_below_bytes = bytes < smallest ? smallest : not_measured;
}

void capacity_unknown(OperatingPointOrReason& result, std::string reason) {
  result.capacity_known = false;
  result.reasons.push_back(std::move(reason));
}

std::string calibrated_range(const std::vector<CapacityPoint>& points) {
  return points.empty() ? "no producer count was calibrated"
                        : fmt::format("calibrated from {} to {} producers, never extrapolated",
                                      points.front().producers, points.back().producers);
}

/// Sets Q(K): linear between the calibrated producer counts next to K, if both have a value.
void set_capacity(const PathProfile& profile, int producers, OperatingPointOrReason& result) {
  const std::vector<CapacityPoint>& points = profile.capacity;
  const auto above = std::find_if(points.begin(), points.end(),
                                  [&](const CapacityPoint& point) { return point.producers >= producers; });
  if (above == points.end() || (above == points.begin() && above->producers != producers)) {
    capacity_unknown(result, fmt::format("capacity Q({}) unknown: {}", producers, calibrated_range(points)));
    return;
  }
  const auto below = above->producers == producers ? above : std::prev(above);
  for (const auto& neighbour : {below, above}) {
    if (!neighbour->capacity_bytes.value) {
      capacity_unknown(result, fmt::format("capacity Q({}) unknown: none at {} producers: {}", producers,
                                           neighbour->producers, neighbour->capacity_bytes.reason));
      return;
    }
  }
  const double low = *below->capacity_bytes.value;
  const double high = *above->capacity_bytes.value;
  const double share = below == above ? 0
                                      : static_cast<double>(producers - below->producers) /
                                            static_cast<double>(above->producers - below->producers);
  result.point.capacity_bytes = low + share * (high - low);
}

}  // namespace

double issue_floor_us(const std::vector<IssueFloorPoint>& points, double bytes) {
  if (bytes < points.front().bytes_per_producer) {
    return issue_floor_below(points, bytes);
  }
  const auto above = std::find_if(points.begin(), points.end(),
                                  [&](const IssueFloorPoint& point) { return point.bytes_per_producer >= bytes; });
  if (above == points.end()) {
    return issue_floor_beyond(points, bytes);
  }
  return above == points.begin() ? above->issue_us : line_through(*std::prev(above), *above, bytes);
}

const PathProfile& path_profile(const Platform& platform, StorePath path) {
  const auto found = std::find_if(platform.paths.begin(), platform.paths.end(),
                                  [&](const PathProfile& profile) { return profile.path == path; });
  if (found == platform.paths.end()) {
    throw InputError(fmt::format("store path {}: the profile of {} does not hold it; calibrate it first", name_of(path),
                                 platform.node.name));
  }
  return *found;
}

OperatingPointOrReason operating_point(const Platform& platform, StorePath path, int producers,
                                       double bytes_per_producer) {
  const PathProfile& profile = path_profile(platform, path);
  check_producers(platform, producers);
  check_bytes(path, bytes_per_producer);
  OperatingPointOrReason result;
  result.point.volume_bytes = producers * bytes_per_producer;
  const bool bound_by_producers = set_drain_rate(profile, producers, result);
  set_issue_floor(profile, bytes_per_producer, result);
  // Producers slower than the fabric leave nothing outstanding in it, so the default, no limit, is right.
  if (!bound_by_producers) {
    set_capacity(profile, producers, result);
  }
  return result;
}

}  // namespace xstage
