#pragma once
/// Field-by-field equality in which two NaN are the same, for round trips through files.

#include <algorithm>
#include <cmath>
#include <vector>

#include "xstage/audit.hpp"
#include "xstage/files.hpp"

namespace xstage {

inline bool same(double a, double b) {
  return a == b ? std::signbit(a) == std::signbit(b) : std::isnan(a) && std::isnan(b);
}

template <typename T>
bool same(const std::vector<T>& a, const std::vector<T>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const T& x, const T& y) { return same(x, y); });
}

inline bool same(const Device& a, const Device& b) {
  return a.name == b.name && a.multiprocessors == b.multiprocessors && a.compute_capability == b.compute_capability &&
         a.memory_bytes == b.memory_bytes && same(a.clock_mhz, b.clock_mhz);
}

inline bool same(const NodeDescription& a, const NodeDescription& b) {
  return a.kind == b.kind && a.name == b.name && same(a.devices, b.devices) && a.links == b.links &&
         a.driver == b.driver && a.cuda == b.cuda && a.date == b.date && a.tool_version == b.tool_version &&
         a.commit == b.commit && a.command == b.command && a.sweep == b.sweep;
}

inline bool same(const BurstSample& a, const BurstSample& b) {
  return a.experiment == b.experiment && a.burst_index == b.burst_index && same(a.gap_us, b.gap_us) &&
         same(a.issue_us, b.issue_us) && same(a.issue_p5_us, b.issue_p5_us) && same(a.issue_p95_us, b.issue_p95_us) &&
         same(a.issue_slowest_us, b.issue_slowest_us) && same(a.period_us, b.period_us) &&
         same(a.visible_us, b.visible_us) && same(a.stored_bytes, b.stored_bytes) && same(a.window_us, b.window_us) &&
         same(a.link_bytes, b.link_bytes) && a.trials == b.trials && a.verified == b.verified &&
         same(a.clock_mhz, b.clock_mhz);
}

inline bool same(const SamplesFile& a, const SamplesFile& b) {
  return same(a.node, b.node) && same(a.samples, b.samples) && a.code == b.code;
}

inline bool same(const Estimate& a, const Estimate& b) {
  return a.value == b.value && same(a.low, b.low) && same(a.high, b.high) && a.points == b.points &&
         a.reason == b.reason;
}

inline bool same(const IssueFloorPoint& a, const IssueFloorPoint& b) {
  return same(a.bytes_per_producer, b.bytes_per_producer) && same(a.issue_us, b.issue_us);
}

inline bool same(const CapacityPoint& a, const CapacityPoint& b) {
  return a.producers == b.producers && same(a.capacity_bytes, b.capacity_bytes) &&
         same(a.knee_bytes_per_producer, b.knee_bytes_per_producer) && same(a.median_error, b.median_error);
}

inline bool same(const GoodnessOfFit& a, const GoodnessOfFit& b) {
  return same(a.drain_median_error, b.drain_median_error) && same(a.drain_worst_error, b.drain_worst_error) &&
         same(a.floor_worst_error, b.floor_worst_error);
}

inline bool same(const PathProfile& a, const PathProfile& b) {
  return a.path == b.path && a.threads == b.threads && same(a.drain_gb_per_s, b.drain_gb_per_s) &&
         same(a.producer_drain_gb_per_s, b.producer_drain_gb_per_s) && same(a.drain_unevenness, b.drain_unevenness) &&
         same(a.issue_floor, b.issue_floor) && a.issue_floor_reason == b.issue_floor_reason &&
         same(a.capacity, b.capacity) && same(a.goodness, b.goodness);
}

inline bool same(const PairDrain& a, const PairDrain& b) {
  return a.source == b.source && a.destination == b.destination && same(a.drain_gb_per_s, b.drain_gb_per_s);
}

inline bool same(const Platform& a, const Platform& b) {
  return same(a.node, b.node) && same(a.paths, b.paths) && same(a.pairs, b.pairs) &&
         same(a.link_counter_ratio, b.link_counter_ratio);
}

}  // namespace xstage
