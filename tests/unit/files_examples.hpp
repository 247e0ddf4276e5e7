#pragma once
/// Small files in memory that the tests of readers and writers start from.

#include <stdexcept>
#include <string>
#include <string_view>

#include "xstage/error.hpp"
#include "xstage/files.hpp"

namespace xstage::examples {

/// Two H200-like devices with awkward but legal provenance.
inline NodeDescription two_gpus() {
  NodeDescription node;
  node.kind = "cuda";
  node.name = "h200x2";
  node.devices = {{"NVIDIA H200, \"rev; A\"", 132, 90, 150754820096, 1980.5},
                  {"NVIDIA H200", 132, 90, 0, not_measured}};
  node.links = "18 NVLink, 26.56 GB/s each";
  node.driver = "580.1: \u00fc ";  // a colon, a letter beyond ASCII and a trailing blank
  node.command = "xstage calibrate --node cuda";
  return node;
}

inline BurstSample periodic_sample() {
  BurstSample sample;
  sample.experiment.producers = 132;
  sample.experiment.bytes = 32768;
  sample.experiment.gap_us = 0.1;  // not a binary fraction
  sample.experiment.bursts = 64;
  sample.gap_us = 0.30000000000000004;
  sample.issue_us = 10.911;
  sample.issue_p5_us = 9;
  sample.issue_p95_us = 12.5;
  sample.issue_slowest_us = 1.0 / 3.0;
  sample.period_us = 11.632;
  sample.stored_bytes = 276824064;
  sample.window_us = 744.5;
  sample.link_bytes = 4e-324;  // the smallest double
  sample.verified = true;
  return sample;
}

inline BurstSample train_sample(int burst) {
  BurstSample sample = periodic_sample();
  sample.experiment.mode = BurstMode::train;
  sample.experiment.regime = Regime::aligned;
  sample.experiment.filler = GapFiller::tensor_cores;
  sample.experiment.held_out = true;
  sample.burst_index = burst;
  sample.gap_us = not_measured;
  sample.issue_p5_us = not_measured;
  return sample;
}

inline SamplesFile samples_file() {
  return {two_gpus(), {periodic_sample(), train_sample(0), train_sample(63)}, R"({"kernels": {"f<(Path)3>": "0123"}})"};
}

inline Estimate known(double value) { return {value, value * 0.99, value * 1.01, 12, ""}; }
inline Estimate unknown(std::string reason) { return {std::nullopt, not_measured, not_measured, 0, std::move(reason)}; }

inline Platform platform() {
  PathProfile path;
  path.drain_gb_per_s = known(372.5);
  path.producer_drain_gb_per_s = known(50.1);
  path.drain_unevenness = known(0.19);
  path.issue_floor = {{1024, 0.21}, {24576, 0.35}};
  path.capacity = {{16, unknown("no knee within the sweep"), not_measured, not_measured},
                   {132, known(3113832.0 / 3.0), 24576, 0.04}};
  path.goodness.drain_median_error = 0.004;
  PathProfile bulk;
  bulk.path = StorePath::bulk;
  bulk.drain_gb_per_s = unknown("too few drain-bound points: 1");
  bulk.producer_drain_gb_per_s = unknown("R is unknown");
  bulk.drain_unevenness = unknown("R is unknown");
  bulk.issue_floor_reason = "R is unknown";
  return {two_gpus(), {path, bulk}, {{0, 1, known(372.5)}, {1, 0, unknown("not swept")}}, unknown("no link counters")};
}

/// The message of the InputError that `action` throws; a text that no message contains if it throws none.
template <typename Action>
std::string refusal(Action action) {
  try {
    action();
  } catch (const InputError& error) {
    return error.what();
  }
  return "<accepted>";
}

/// `text` with the first `from` replaced; a `from` that is not there would make a test say nothing.
inline std::string with(std::string text, std::string_view from, std::string_view to) {
  const std::size_t place = text.find(from);
  if (place == std::string::npos) {
    throw std::logic_error("test text does not contain: " + std::string(from));
  }
  return text.replace(place, from.size(), to);
}

}  // namespace xstage::examples
