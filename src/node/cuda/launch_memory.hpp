#pragma once
// The device memory that burst launches of one GPU use: allocated once per node, reused by every experiment.

#include "device/device_memory.hpp"
#include "node/cuda/burst_parameters.hpp"

namespace xstage::cuda {

/// Enough memory that one rotation through it exceeds the destination's L2 cache several times (H200: 60 MiB).
inline constexpr std::size_t receive_bytes = std::size_t{512} << 20U;
/// The memory_reads filler streams this memory, which also exceeds the L2 cache several times.
inline constexpr std::size_t filler_bytes = std::size_t{1} << 30U;
/// Longest log of one producer; bounded by the shared memory that holds it during the run.
inline constexpr int maximum_bursts = 4096;

/// More SMs than any GPU has; a sender may have more of them than its receiver.
inline constexpr std::size_t maximum_producers = 1024;

struct LaunchMemory {
  LaunchMemory(int device_index, int multiprocessors);

  int device;
  Stream stream;
  DeviceBuffer receive;  // written by peers (or by this GPU for the local control)
  DeviceBuffer filler;
  DeviceBuffer log;            // [producers][bursts] LoggedBurst
  DeviceBuffer clocks;         // [producers] ProducerClock
  DeviceBuffer sender_clocks;  // [producers] ProducerClock of the GPU that stored into `receive`
  DeviceBuffer control;        // Control
};

/// Small words that a launch needs zeroed.
struct Control {
  std::uint32_t barrier;
  std::uint32_t rendezvous;
  std::uint32_t sink;
  AbortReport abort_report;
  unsigned long long mismatches;
};

}  // namespace xstage::cuda
