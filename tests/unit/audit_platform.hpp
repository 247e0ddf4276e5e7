#pragma once
/// A made-up platform with round numbers, so that the audit's tests can be checked by hand.
///
/// R = 400 GB/s = 400,000 bytes/us; one producer stores at 50 GB/s, so from 8 producers on the fabric is the bound;
/// T_iss0 = 0.5 us for any burst from 16,000 to 64,000 bytes; Q(32) = 1,000,000 and Q(128) = 3,000,000 bytes.
/// 128 producers x 32,000 bytes: V = 4,096,000 bytes, V/R = 10.24 us, G* = 9.74 us, q_peak0 = 3,896,000 bytes > Q,
/// isolated issue time (V - Q)/R = 2.74 us.

#include "xstage/audit.hpp"

namespace xstage {

inline Estimate known(double value) {
  Estimate estimate;
  estimate.value = value;
  estimate.low = value;
  estimate.high = value;
  estimate.points = 10;
  return estimate;
}

inline Estimate unknown(std::string reason) {
  Estimate estimate;
  estimate.reason = std::move(reason);
  return estimate;
}

inline Platform round_platform() {
  Platform platform;
  platform.node.kind = "simulated";
  platform.node.name = "round";
  platform.node.devices.resize(2);
  for (Device& device : platform.node.devices) {
    device.name = "Round GPU";
    device.multiprocessors = 132;
    device.compute_capability = 90;
  }
  PathProfile path;
  path.path = StorePath::store16;
  path.drain_gb_per_s = known(400);
  path.producer_drain_gb_per_s = known(50);
  path.drain_unevenness = unknown("made up without trains");
  path.issue_floor = {{16000, 0.5}, {64000, 0.5}};
  path.capacity = {{32, known(1e6), not_measured, not_measured}, {128, known(3e6), not_measured, not_measured}};
  platform.paths = {path};
  platform.link_counter_ratio = unknown("a made-up platform has no links");
  return platform;
}

inline Workload round_workload(double gap_us) {
  Workload workload;
  workload.name = "round";
  workload.producers = 128;
  workload.bytes = 32000;
  workload.gap_us = gap_us;
  return workload;
}

}  // namespace xstage
