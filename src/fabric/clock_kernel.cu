// Two threads on two GPUs send a word back and forth and record the times. Every wait is bounded.

#include "fabric/clock_kernel.hpp"
#include "fabric/signals.cuh"

namespace xstage::trace {

namespace {

using kernels::global_nanoseconds;

/// Smallest step by which the clock advances (32 ns or 1 us, by GPU), from a few readings.
__device__ std::uint32_t clock_step(std::uint64_t deadline) {
  constexpr int steps = 8;
  std::uint64_t smallest = ~std::uint64_t{0};
  std::uint64_t last = global_nanoseconds();
  for (int step = 0; step < steps && last < deadline;) {
    const std::uint64_t now = global_nanoseconds();
    if (now > last) {
      smallest = min(smallest, now - last);
      last = now;
      ++step;
    }
  }
  return static_cast<std::uint32_t>(smallest);
}

/// Loads are relaxed, as are the stores: the word carries no data, and a fence would lengthen one direction more than
/// the other.
__device__ bool wait_for(const std::uint32_t* word, std::uint32_t value, std::uint64_t deadline) {
  while (static_cast<std::int32_t>(kernels::load_relaxed(word) - value) < 0) {
    if (global_nanoseconds() > deadline) {
      return false;
    }
  }
  return true;
}

/// Times are written while the other end waits for nothing from this one, so that they delay no message.
__device__ void note(const ClockParameters& parameters, std::uint32_t exchange, std::uint64_t first,
                     std::uint64_t second) {
  parameters.log->first_ns[exchange] = first;
  parameters.log->second_ns[exchange] = second;
  parameters.log->completed = exchange + 1;
}

__device__ bool lead(const ClockParameters& parameters, std::uint32_t exchange, std::uint64_t deadline) {
  const std::uint32_t message = parameters.base + exchange + 1;
  const std::uint64_t sent = global_nanoseconds();
  kernels::store_relaxed(parameters.outbox, message);
  const bool answered = wait_for(parameters.inbox, message, deadline);
  const std::uint64_t returned = global_nanoseconds();
  if (answered) {
    note(parameters, exchange, sent, returned);
  }
  return answered;
}

__device__ bool follow(const ClockParameters& parameters, std::uint32_t exchange, std::uint64_t deadline) {
  const std::uint32_t message = parameters.base + exchange + 1;
  if (!wait_for(parameters.inbox, message, deadline)) {
    return false;
  }
  const std::uint64_t received = global_nanoseconds();
  const std::uint64_t answered = global_nanoseconds();
  kernels::store_relaxed(parameters.outbox, message);
  note(parameters, exchange, received, answered);
  return true;
}

__global__ void clock_kernel(const ClockParameters parameters) {
  const std::uint64_t deadline = global_nanoseconds() + parameters.time_out_ns;
  parameters.log->completed = 0;
  parameters.log->step_ns = clock_step(deadline);
  bool alive = true;
  for (std::uint32_t exchange = 0; alive && exchange < clock_exchanges; ++exchange) {
    alive = parameters.leads != 0 ? lead(parameters, exchange, deadline) : follow(parameters, exchange, deadline);
  }
}

}  // namespace

cudaError_t launch_clock_exchange(const ClockParameters& parameters, cudaStream_t stream) {
  clock_kernel<<<1, 1, 0, stream>>>(parameters);
  return cudaGetLastError();
}

}  // namespace xstage::trace
