#pragma once
// One end of the exchange that compares the clocks of two GPUs.

#include <cuda_runtime_api.h>

#include <cstdint>

namespace xstage::trace {

inline constexpr std::uint32_t clock_exchanges = 200;

/// What one end saw, in its own memory.
struct ClockLog {
  std::uint32_t completed;                   // exchanges until the end or until a wait timed out
  std::uint32_t step_ns;                     // smallest step by which the clock was seen to advance
  std::uint64_t first_ns[clock_exchanges];   // leader: sent; follower: received
  std::uint64_t second_ns[clock_exchanges];  // leader: answer received; follower: answered
};

struct ClockParameters {
  const std::uint32_t* inbox;  // word in this end's memory into which the other end writes
  std::uint32_t* outbox;       // the other end's inbox
  ClockLog* log;
  std::uint32_t base;         // messages are base + 1, base + 2, ...: larger than any earlier message
  std::int32_t leads;         // 1: sends first
  std::uint64_t time_out_ns;  // of the whole exchange
};

/// Launches one end, a single thread, on the current device.
cudaError_t launch_clock_exchange(const ClockParameters& parameters, cudaStream_t stream);

}  // namespace xstage::trace
