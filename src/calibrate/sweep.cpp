/// The whole sweep, and code that its parts share.

#include "calibrate/sweep.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include <fmt/format.h>

#include "calibrate/sweep_choice.hpp"
#include "xstage/calibrate.hpp"
#include "xstage/error.hpp"

namespace xstage {
namespace calibrate {
namespace {

constexpr int threads_per_producer = 256;
/// Drain rate of an H200 with 18 NVLinks: 372 GB/s of a raw link rate of 478 GB/s (first measurement, 2026-11-29).
constexpr double expected_drain_gb_per_s = 372;
constexpr double drained_share_of_link_rate = 372.0 / 478.0;
constexpr double bytes_per_us_per_gb_per_s = 1000;

/// R from a description such as "18 NVLink, 26.56 GB/s each"; the default where the links are described otherwise.
double expected_drain(const std::string& links) {
  int count = 0;
  char digits[16] = "";  // not "%lf", which would take hexadecimal digits and "inf"
  int end = 0;
  const bool understood =
      std::sscanf(links.c_str(), "%d NVLink, %15[0-9.] GB/s each%n", &count, digits, &end) == 2 && end > 0;
  const double each = std::strtod(digits, nullptr);
  return understood && count > 0 && each > 0 ? drained_share_of_link_rate * count * each : expected_drain_gb_per_s;
}

/// Number of bursts for a steady state: they take about half a millisecond.
int bursts_for_steady_state(double period_us) {
  constexpr double window_us = 500;
  return static_cast<int>(std::clamp(window_us / std::max(period_us, 0.1), 24.0, 256.0));
}

}  // namespace

int SweepScale::fraction(int divisor) const { return std::max(1, multiprocessors / divisor); }

double SweepScale::drain_time_us(int producers, std::int64_t bytes) const {
  return static_cast<double>(producers) * static_cast<double>(bytes) / drain_bytes_per_us;
}

SweepScale scale_of(const NodeDescription& node, bool quick) {
  if (node.devices.size() < 2) {
    throw InputError(
        fmt::format("devices {}: a calibration stores to a peer and needs at least 2", node.devices.size()));
  }
  SweepScale scale;
  scale.devices = static_cast<int>(node.devices.size());
  scale.multiprocessors = node.devices.front().multiprocessors;
  scale.has_bulk = true;
  for (const Device& device : node.devices) {
    scale.multiprocessors = std::min(scale.multiprocessors, device.multiprocessors);
    scale.has_bulk = scale.has_bulk && device.compute_capability >= 90;
  }
  if (scale.multiprocessors < 1) {
    throw InputError(
        fmt::format("multiprocessors {}: every device of a calibration needs at least 1", scale.multiprocessors));
  }
  scale.drain_bytes_per_us = expected_drain(node.links) * bytes_per_us_per_gb_per_s;
  scale.quick = quick;
  return scale;
}

void ExperimentList::add(const BurstExperiment& experiment) {
  const auto same_measurement = [&](BurstExperiment other) {
    other.held_out = experiment.held_out;
    return other == experiment;
  };
  if (std::none_of(experiments_.begin(), experiments_.end(), same_measurement)) {
    experiments_.push_back(experiment);
  }
}

BurstExperiment periodic(const SweepScale& scale, StorePath path, Regime regime, int producers, std::int64_t bytes,
                         double gap_us) {
  BurstExperiment experiment;
  experiment.path = path;
  experiment.mode = BurstMode::periodic;
  experiment.regime = regime;
  experiment.producers = producers;
  experiment.bytes = bytes;
  experiment.threads = threads_per_producer;
  experiment.gap_us = gap_us;
  experiment.bursts = bursts_for_steady_state(std::max(gap_us, scale.drain_time_us(producers, bytes)));
  return experiment;
}

BurstExperiment isolated(StorePath path, int producers, std::int64_t bytes) {
  BurstExperiment experiment;
  experiment.path = path;
  experiment.mode = BurstMode::isolated;
  experiment.regime = Regime::aligned;
  experiment.producers = producers;
  experiment.bytes = bytes;
  experiment.threads = threads_per_producer;
  experiment.bursts = 16;
  return experiment;
}

BurstExperiment train(StorePath path, Regime regime, int producers, std::int64_t bytes, double gap_us) {
  BurstExperiment experiment = isolated(path, producers, bytes);
  experiment.mode = BurstMode::train;
  experiment.regime = regime;
  experiment.gap_us = gap_us;
  experiment.bursts = 12;
  return experiment;
}

BurstExperiment fixed_work(const SweepScale& scale, StorePath path, int producers, std::int64_t bytes, double gap_us) {
  BurstExperiment experiment = periodic(scale, path, Regime::free_running, producers, bytes, gap_us);
  experiment.mode = BurstMode::fixed_work;
  experiment.bursts = 100;
  return experiment;
}

}  // namespace calibrate

std::vector<BurstExperiment> calibration_sweep(const NodeDescription& node, bool quick, const SweepChoice& choice) {
  const calibrate::SweepScale scale = calibrate::scale_of(node, quick);
  calibrate::check_choice(choice, scale, node);
  calibrate::ExperimentList list;
  if (choice.has_lists()) {
    calibrate::add_chosen_experiments(scale, choice, list);
  } else {
    calibrate::add_fit_experiments(scale, list);
    calibrate::add_control_experiments(scale, list);
    if (!choice.source && !choice.destination) {
      calibrate::add_device_experiments(scale, list);
    }
    calibrate::add_held_out_experiments(scale, list);
  }
  return calibrate::narrowed(list.take(), choice);
}

}  // namespace xstage
