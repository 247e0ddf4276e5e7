#pragma once
// Clocks and bounded waits. No wait can hang: one that times out reports where it waited and for what, and raises the
// abort flag that every other wait polls, so that the launch returns.

#include <cuda/atomic>

#include "node/cuda/burst_parameters.hpp"

namespace xstage::cuda {

__device__ inline std::uint64_t global_nanosecond() {
  std::uint64_t value;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(value)::"memory");
  return value;
}

__device__ inline std::uint64_t cycle() {
  std::uint64_t value;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(value)::"memory");
  return value;
}

/// Polls until `*word >= expected` at `Scope`. The load is relaxed, since nothing is read behind it. Returns false if
/// it times out or another wait has aborted.
template <::cuda::thread_scope Scope>
__device__ inline bool wait_at_least(std::uint32_t* word, std::uint32_t expected, WaitSite site,
                                     std::uint64_t timeout_nanosecond, const BurstParameters& parameters) {
  ::cuda::atomic_ref<std::uint32_t, Scope> value(*word);
  ::cuda::atomic_ref<std::uint32_t, ::cuda::thread_scope_system> raised(parameters.abort_report->raised);
  const std::uint64_t deadline = global_nanosecond() + timeout_nanosecond;
  while (true) {
    const std::uint32_t seen = value.load(::cuda::memory_order_relaxed);
    if (seen >= expected) {
      return true;
    }
    if (raised.load(::cuda::memory_order_relaxed) != 0) {
      return false;
    }
    if (global_nanosecond() > deadline) {
      if (raised.exchange(1) == 0) {
        parameters.abort_report->site = site;
        parameters.abort_report->producer = blockIdx.x;
        parameters.abort_report->expected = expected;
        parameters.abort_report->seen = seen;
      }
      return false;
    }
  }
}

/// Barrier over all producers, called by one thread of each. `generation` counts from 1. It aligns producers and
/// publishes no data, so its arrival is relaxed. A release arrival waits until the CTA's remote stores have been
/// performed: measured with it, every burst met an empty X-Stage (period V/R + 1 us at any gap), which is the
/// completion-coupled schedule and not the one under test.
__device__ inline bool grid_barrier(std::uint32_t generation, const BurstParameters& parameters) {
  ::cuda::atomic_ref<std::uint32_t, ::cuda::thread_scope_device> arrivals(*parameters.barrier);
  arrivals.fetch_add(1, ::cuda::memory_order_relaxed);
  return wait_at_least<::cuda::thread_scope_device>(parameters.barrier,
                                                    generation * static_cast<std::uint32_t>(parameters.producers),
                                                    WaitSite::grid_barrier, parameters.timeout_nanosecond, parameters);
}

/// Rendezvous for both directions at once: neither GPU starts before the other one's CTAs are on its SMs.
__device__ inline bool peer_rendezvous(const BurstParameters& parameters) {
  if (parameters.peer_rendezvous == nullptr) {
    return true;
  }
  ::cuda::atomic_ref<std::uint32_t, ::cuda::thread_scope_system> peer(*parameters.peer_rendezvous);
  peer.store(1, ::cuda::memory_order_relaxed);
  // The limit is half of the others' limit: the other producers wait at the barrier meanwhile, and the report must name
  // the cause.
  return wait_at_least<::cuda::thread_scope_system>(parameters.own_rendezvous, 1, WaitSite::peer_rendezvous,
                                                    parameters.timeout_nanosecond / 2, parameters);
}

}  // namespace xstage::cuda
