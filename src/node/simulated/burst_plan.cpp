#include "node/simulated/burst_plan.hpp"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "xstage/error.hpp"

namespace xstage::simulated {
namespace {

constexpr int threads_per_warp = 32;

/// Number of packets beyond which more bursts of an experiment give no new information. It bounds the run time to some
/// 0.2 s.
constexpr std::int64_t enough_packets = 2'500'000;
/// Number of bursts for a steady state: a quarter of them is the transient, and the rest are averaged.
constexpr std::int64_t fewest_periodic_bursts = 16;
constexpr std::int64_t most_repetitions = 8;

constexpr std::int64_t largest_burst_bytes = std::int64_t{1} << 30;
constexpr std::int64_t largest_run_bytes = std::int64_t{1} << 33;

std::int64_t packets_of(std::int64_t bytes) { return (bytes + packet_bytes - 1) / packet_bytes; }

int queue_places(double bytes) { return std::max(1, static_cast<int>(bytes / static_cast<double>(packet_bytes))); }

/// Timing of a store path. The queue's size does not depend on the number of warps: 4, 8 and 16-byte stores end a long
/// burst alike on H200.
StorePathTiming store_timing(const SimulatedHardware& hardware, const BurstExperiment& experiment) {
  const std::int64_t instruction_bytes = std::int64_t{threads_per_warp} * store_width_bytes(experiment.path);
  const double packets_per_instruction = static_cast<double>(instruction_bytes) / static_cast<double>(packet_bytes);
  StorePathTiming timing;
  timing.begin = from_ns(hardware.store_begin_ns);
  timing.end = from_ns(hardware.store_end_ns);
  timing.issue_interval =
      from_ns(std::max(hardware.packet_issue_ns, hardware.warp_instruction_ns / packets_per_instruction));
  timing.egress_interval = transfer_time(packet_bytes, hardware.store_egress_gb_per_s);
  timing.queue_packets = queue_places(hardware.store_queue_bytes);
  timing.window_packets = queue_places(hardware.store_window_bytes);
  return timing;
}

StorePathTiming bulk_timing(const SimulatedHardware& hardware) {
  StorePathTiming timing;
  timing.begin = from_ns(hardware.bulk_begin_ns);
  timing.end = from_ns(hardware.bulk_end_ns);
  timing.egress_interval = transfer_time(packet_bytes, hardware.bulk_egress_gb_per_s);
  timing.queue_packets = 0;
  timing.window_packets = queue_places(hardware.bulk_window_bytes);
  return timing;
}

void plan_fabric(const SimulatedHardware& hardware, const BurstExperiment& experiment, BurstPlan& plan) {
  plan.take_interval = transfer_time(packet_bytes, hardware.crossbar_gb_per_s);
  plan.credit_return = from_ns(hardware.credit_return_ns);
  plan.remote = experiment.target == Target::remote;
  if (!plan.remote) {
    plan.acknowledgement = from_ns(hardware.local_acknowledgement_ns);
    return;
  }
  const auto last_bytes = static_cast<double>(experiment.bytes - (plan.packets_per_burst - 1) * packet_bytes);
  plan.packet_time = transfer_time(packet_bytes + hardware.header_bytes, hardware.link_gb_per_s);
  plan.last_packet_time = transfer_time(last_bytes + hardware.header_bytes, hardware.link_gb_per_s);
  plan.packet_spacing = transfer_time(packet_bytes, hardware.multiprocessor_gb_per_s);
  plan.wire = from_ns(hardware.wire_ns);
  plan.acknowledgement = from_ns(hardware.acknowledgement_ns);
}

void plan_gap(const SimulatedHardware& hardware, const BurstExperiment& experiment, BurstPlan& plan) {
  plan.gap = from_us(experiment.gap_us);
  if (plan.gap == 0) {
    return;
  }
  plan.longest_overshoot =
      from_ns(experiment.filler == GapFiller::tensor_cores ? hardware.tensor_core_step_ns : hardware.timer_step_ns);
  plan.reads_memory = experiment.filler == GapFiller::memory_reads;
}

int bursts_to_run(const BurstExperiment& experiment, std::int64_t packets_per_round) {
  const std::int64_t affordable = enough_packets / packets_per_round;
  switch (experiment.mode) {
    case BurstMode::isolated:
      return static_cast<int>(std::min<std::int64_t>(experiment.bursts, std::clamp<std::int64_t>(affordable, 1, 32)));
    case BurstMode::train:
      return experiment.bursts *
             static_cast<int>(std::clamp<std::int64_t>(affordable / experiment.bursts, 1, most_repetitions));
    case BurstMode::fixed_work:
      return experiment.bursts;
    case BurstMode::periodic:
      break;
  }
  return static_cast<int>(std::max(fewest_periodic_bursts, std::min<std::int64_t>(experiment.bursts, affordable)));
}

}  // namespace

BurstPlan plan_bursts(const SimulatedHardware& hardware, const BurstExperiment& experiment) {
  BurstPlan plan;
  plan.producers = experiment.producers;
  plan.bytes = experiment.bytes;
  plan.packets_per_burst = packets_of(experiment.bytes);
  plan.timing = experiment.path == StorePath::bulk ? bulk_timing(hardware) : store_timing(hardware, experiment);
  plan_fabric(hardware, experiment, plan);
  plan.aligned = experiment.regime == Regime::aligned;
  plan.loops = experiment.mode == BurstMode::periodic && !plan.aligned;
  plan.wants_visible = experiment.mode == BurstMode::isolated;
  plan.bursts = bursts_to_run(experiment, plan.packets_per_burst * plan.producers);
  plan.train_length = experiment.mode == BurstMode::isolated ? 1
                      : experiment.mode == BurstMode::train  ? experiment.bursts
                                                             : std::numeric_limits<int>::max();
  plan_gap(hardware, experiment, plan);
  return plan;
}

void check_simulation_size(const BurstExperiment& experiment) {
  const std::int64_t volume = experiment.bytes * experiment.producers;
  if (volume > largest_burst_bytes) {
    throw InputError(fmt::format("bytes {} x producers {}: a simulated burst has at most {} bytes", experiment.bytes,
                                 experiment.producers, largest_burst_bytes));
  }
  const std::int64_t all_packets = packets_of(experiment.bytes) * experiment.producers * experiment.bursts;
  const bool exact = experiment.mode == BurstMode::train || experiment.mode == BurstMode::fixed_work;
  if (exact && all_packets > largest_run_bytes / packet_bytes) {
    throw InputError(fmt::format(
        "bytes {} x producers {} x bursts {}: {} of at most {} bytes, whole 128-byte requests counted, can be "
        "simulated",
        experiment.bytes, experiment.producers, experiment.bursts, name_of(experiment.mode), largest_run_bytes));
  }
}

}  // namespace xstage::simulated
