#include "node/cuda/burst_launch.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "node/cuda/burst_kernel.hpp"
#include "node/cuda/discovery.hpp"
#include "node/cuda/payload.hpp"
#include "xstage/error.hpp"

namespace xstage::cuda {
namespace {

constexpr std::int64_t line_bytes = 128;
// Time limit of a wait. It is generous: it must end a hang, and no wait that succeeds takes a second.
constexpr std::uint64_t wait_timeout_nanosecond = 2'000'000'000;
// Pause after the fence that ends a train. The stores are visible then; the acknowledgements and the links settle in
// this time.
constexpr double drain_pause_us = 5;

std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

std::uint32_t to_cycles(double microseconds, double clock_mhz) {
  const double cycles = microseconds * clock_mhz;
  if (!(cycles < 4e9)) {
    throw InputError(fmt::format("a gap of {} microseconds is too long: at most {} at {} MHz", microseconds,
                                 4e9 / clock_mhz, clock_mhz));
  }
  return static_cast<std::uint32_t>(cycles);
}

/// The producers' cycle counters on one clock: each is tied to %globaltimer at both ends of its run.
std::vector<TracedBurst> on_common_clock(const LoggedBurst* log, const ProducerClock& clock, std::uint64_t origin,
                                         double nanosecond_per_cycle, bool visible) {
  std::vector<TracedBurst> bursts(clock.bursts);
  const double start_us = static_cast<double>(clock.start_nanosecond - origin) / 1000;
  const auto at = [&](std::uint32_t cycles) { return start_us + cycles * nanosecond_per_cycle / 1000; };
  for (std::size_t index = 0; index < bursts.size(); ++index) {
    bursts[index] = {at(log[index].start), at(log[index].issued), visible ? at(log[index].visible) : not_measured};
  }
  return bursts;
}

/// One clock rate for the GPU, from all producers: the run of a single producer may be short compared with the timer's
/// tick.
double nanoseconds_per_cycle(const std::vector<ProducerClock>& clocks) {
  double nanoseconds = 0;
  double cycles = 0;
  for (const ProducerClock& clock : clocks) {
    nanoseconds += static_cast<double>(clock.end_nanosecond - clock.start_nanosecond);
    cycles += static_cast<double>(clock.end_cycle - clock.start_cycle);
  }
  if (!(nanoseconds > 0) || !(cycles > 0)) {
    throw DeviceError("the GPU's timers did not advance during a launch");
  }
  return nanoseconds / cycles;
}

std::string_view name_of(WaitSite site) {
  return site == WaitSite::grid_barrier ? "the grid barrier" : "the rendezvous with the peer GPU";
}

}  // namespace

struct BurstLauncher::Prepared {
  BurstParameters parameters;
  std::vector<int> destinations;  // device of each destination buffer
  int source;
  int shared_bytes;
};

BurstLauncher::BurstLauncher(std::vector<LaunchMemory>& memory, const NodeDescription& node)
    : memory_(&memory), node_(node) {
  for (const LaunchMemory& one : memory) {
    shared_bytes_limit_.push_back(maximum_shared_bytes(one.device));
  }
}

BurstLauncher::Prepared BurstLauncher::prepare(const BurstExperiment& experiment, const LaunchPlan& plan, int source,
                                               int partner) {
  const auto source_index = static_cast<std::size_t>(source);
  const LaunchMemory& own = (*memory_)[source_index];
  Prepared prepared{};
  prepared.source = source;
  if (experiment.target == Target::local) {
    prepared.destinations = {source};
  } else if (partner >= 0) {
    prepared.destinations = {partner};
  } else {
    prepared.destinations = experiment.destinations;
  }

  BurstParameters& parameters = prepared.parameters;
  parameters.destination_count = static_cast<int>(prepared.destinations.size());
  for (std::size_t index = 0; index < prepared.destinations.size(); ++index) {
    parameters.destinations[index] =
        (*memory_)[static_cast<std::size_t>(prepared.destinations[index])].receive.as<char>();
  }
  parameters.bytes = experiment.bytes;
  parameters.stride_bytes = round_up(experiment.bytes, line_bytes);
  const std::int64_t row_bytes = parameters.stride_bytes * experiment.producers;
  parameters.slots =
      static_cast<int>(std::min<std::int64_t>(plan.bursts, static_cast<std::int64_t>(receive_bytes) / row_bytes));
  if (parameters.slots < 1) {
    throw InputError(fmt::format("{} producers x {} bytes = {} bytes a burst: at most {} fit the receive buffer",
                                 experiment.producers, experiment.bytes, row_bytes, receive_bytes));
  }

  const double clock_mhz = node_.devices[source_index].clock_mhz;
  parameters.producers = experiment.producers;
  parameters.gap_cycles = to_cycles(experiment.gap_us, clock_mhz);
  parameters.bursts = plan.bursts;
  parameters.train_length = plan.train_length;
  parameters.drain_cycles = to_cycles(std::max(drain_pause_us, experiment.gap_us), clock_mhz);
  parameters.stop_cycles = to_cycles(plan.stop_us, clock_mhz);
  parameters.align_every_burst = experiment.regime == Regime::aligned;
  parameters.measure_visible = experiment.mode == BurstMode::isolated;
  parameters.filler_memory = own.filler.as<const uint4>();
  parameters.filler_words = own.filler.bytes() / sizeof(uint4);
  parameters.filler = static_cast<int>(experiment.filler);
  parameters.seed = seed_;
  seed_ += 0x61C88647U;

  parameters.log = own.log.as<LoggedBurst>();
  parameters.clocks = own.clocks.as<ProducerClock>();
  auto* control = own.control.as<Control>();
  parameters.barrier = &control->barrier;
  parameters.abort_report = &control->abort_report;
  parameters.sink = &control->sink;
  parameters.timeout_nanosecond = wait_timeout_nanosecond;
  if (partner >= 0) {
    parameters.own_rendezvous = &control->rendezvous;
    parameters.peer_rendezvous = &(*memory_)[static_cast<std::size_t>(partner)].control.as<Control>()->rendezvous;
  }

  // The request is more than half of an SM's shared memory, so that each SM holds one CTA, as K producers on K SMs.
  const int limit = shared_bytes_limit_[source_index];
  const std::int64_t needed = required_shared_bytes(experiment.path, plan.bursts);
  prepared.shared_bytes = static_cast<int>(std::max<std::int64_t>(needed, limit / 2 + 1024));
  if (prepared.shared_bytes > limit) {
    throw InputError(fmt::format("{} bursts need {} bytes of shared memory for their log: this GPU has {}", plan.bursts,
                                 needed, limit));
  }
  return prepared;
}

void BurstLauncher::start(const BurstExperiment& experiment, const Prepared& prepared) {
  const LaunchMemory& own = (*memory_)[static_cast<std::size_t>(prepared.source)];
  const CurrentDevice current(own.device);
  check(allow_shared_memory(experiment.path, prepared.shared_bytes), "reserving shared memory");
  check(
      launch_bursts(experiment.path, prepared.parameters, experiment.threads, prepared.shared_bytes, own.stream.get()),
      fmt::format("launching {} producers of {} threads on GPU {}", experiment.producers, experiment.threads,
                  own.device));
}

std::uint64_t BurstLauncher::verify(const BurstExperiment& experiment, const Prepared& prepared,
                                    const std::vector<ProducerClock>& clocks) {
  std::uint64_t mismatches = 0;
  for (std::size_t index = 0; index < prepared.destinations.size(); ++index) {
    const LaunchMemory& receiver = (*memory_)[static_cast<std::size_t>(prepared.destinations[index])];
    const CurrentDevice current(receiver.device);
    VerifyParameters parameters{};
    parameters.destination = receiver.receive.as<char>();
    parameters.bytes = experiment.bytes;
    parameters.stride_bytes = prepared.parameters.stride_bytes;
    parameters.slots = prepared.parameters.slots;
    parameters.producers = experiment.producers;
    parameters.destination_index = static_cast<int>(index);
    parameters.destination_count = prepared.parameters.destination_count;
    parameters.seed = prepared.parameters.seed;
    parameters.payload_has_burst = experiment.path != StorePath::bulk;
    // The receiver gets a copy: reading the source's own clocks would send bytes over the links that the counters
    // verify.
    check(cudaMemcpy(receiver.sender_clocks.as<ProducerClock>(), clocks.data(), clocks.size() * sizeof(ProducerClock),
                     cudaMemcpyHostToDevice),
          "copying the producers' clocks");
    parameters.clocks = receiver.sender_clocks.as<ProducerClock>();
    auto* counter = &receiver.control.as<Control>()->mismatches;
    check(cudaMemset(counter, 0, sizeof(*counter)), "clearing the mismatch counter");
    check(launch_verify(parameters, counter, receiver.stream.get()), "launching the verification");
    check(cudaStreamSynchronize(receiver.stream.get()), "verifying the payload");
    unsigned long long wrong = 0;
    check(cudaMemcpy(&wrong, counter, sizeof(wrong), cudaMemcpyDeviceToHost), "reading the mismatch counter");
    mismatches += wrong;
  }
  return mismatches;
}

LaunchResult BurstLauncher::finish(const BurstExperiment& experiment, const Prepared& prepared) {
  const LaunchMemory& own = (*memory_)[static_cast<std::size_t>(prepared.source)];
  const CurrentDevice current(own.device);
  check(cudaStreamSynchronize(own.stream.get()), "running the bursts");
  const Control control = own.control.read<Control>(1).front();
  if (control.abort_report.raised != 0) {
    const AbortReport& report = control.abort_report;
    throw DeviceError(fmt::format(
        "producer {} of GPU {} gave up waiting at {} after {} ms: it waits for {} and sees {}", report.producer,
        own.device, name_of(report.site), wait_timeout_nanosecond / 1'000'000, report.expected, report.seen));
  }
  const auto producers = static_cast<std::size_t>(experiment.producers);
  const auto bursts = static_cast<std::size_t>(prepared.parameters.bursts);
  const auto clocks = own.clocks.read<ProducerClock>(producers);
  const auto log = own.log.read<LoggedBurst>(producers * bursts);

  LaunchResult result;
  const double rate = nanoseconds_per_cycle(clocks);
  result.trace.clock_mhz = 1000 / rate;
  std::uint64_t origin = clocks.front().start_nanosecond;
  for (const ProducerClock& clock : clocks) {
    origin = std::min(origin, clock.start_nanosecond);
  }
  for (std::size_t producer = 0; producer < producers; ++producer) {
    result.bursts_made += clocks[producer].bursts;
    result.trace.producers.push_back(
        on_common_clock(&log[producer * bursts], clocks[producer], origin, rate, prepared.parameters.measure_visible));
  }
  result.mismatched_words = verify(experiment, prepared, clocks);
  return result;
}

std::vector<LaunchResult> BurstLauncher::run(const BurstExperiment& experiment, const LaunchPlan& plan,
                                             const std::vector<int>& sources) {
  std::vector<Prepared> launches;
  for (std::size_t index = 0; index < sources.size(); ++index) {
    const int partner = sources.size() == 2 ? sources[1 - index] : -1;
    launches.push_back(prepare(experiment, plan, sources[index], partner));
  }
  for (LaunchMemory& memory : *memory_) {
    const CurrentDevice current(memory.device);
    memory.control.clear(memory.stream.get());
    check(cudaMemsetAsync(memory.receive.as<char>(), poison_byte, memory.receive.bytes(), memory.stream.get()),
          "poisoning the receive buffer");
  }
  for (const LaunchMemory& memory : *memory_) {
    check(cudaStreamSynchronize(memory.stream.get()), "preparing the buffers");
  }
  for (const Prepared& launch : launches) {
    start(experiment, launch);
  }
  std::vector<LaunchResult> results;
  results.reserve(launches.size());
  for (const Prepared& launch : launches) {
    results.push_back(finish(experiment, launch));
  }
  return results;
}

}  // namespace xstage::cuda
