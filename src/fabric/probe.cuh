#pragma once
// Two instruments that are compiled into a second instantiation of a kernel and absent from the first: spans (which
// role did what at which time, on which tile) and delays (random sleeps at every signal, wait and store, which expose
// errors of order).

#include <cstdint>

#include "fabric/signals.cuh"
#include "fabric/span_record.hpp"

namespace xstage::kernels {

/// State of one role's instrument. It lies in shared memory, since the multiplying warpgroups have no register to
/// spare.
struct ProbeState {
  const ProbeParameters* parameters;
  std::uint64_t begin_ns;
  std::int32_t slot;
  std::int32_t count;
  std::uint32_t random;
};

/// Probe of kernels without instruments: it compiles to nothing.
struct NoProbe {
  static constexpr bool records = false;
  __device__ NoProbe(ProbeState*, SpanRole) {}
  __device__ static void start_all(const ProbeParameters&, ProbeState*, std::int32_t) {}
  __device__ void begin() {}
  __device__ void end(SpanKind, std::int32_t) {}
  __device__ void delay() {}
};

/// Probe of the instrumented instantiation. One object serves a role, and one thread uses it.
class RecordingProbe {
 public:
  static constexpr bool records = true;
  __device__ RecordingProbe(ProbeState* states, SpanRole role) : state_(states[static_cast<std::int32_t>(role)]) {}

  /// To be called before the first use of any of a CTA's probes.
  __device__ static void start_all(const ProbeParameters& parameters, ProbeState* states, std::int32_t block) {
    for (std::int32_t role = 0; role < span_roles; ++role) {
      ProbeState& state = states[role];
      state.parameters = &parameters;
      state.slot = block * span_roles + role;
      state.count = 0;
      state.random = parameters.delay_seed + static_cast<std::uint32_t>(state.slot) * 0x9E3779B9U;
    }
  }

  __device__ void begin() { state_.begin_ns = global_nanoseconds(); }

  __device__ void end(SpanKind kind, std::int32_t tile) {
    const ProbeParameters& parameters = *state_.parameters;
    if (parameters.spans == nullptr || state_.count >= parameters.spans_each) {
      return;
    }
    SpanRecord& record = parameters.spans[state_.slot * parameters.spans_each + state_.count++];
    record.begin_ns = state_.begin_ns;
    record.end_ns = global_nanoseconds();
    record.kind = static_cast<std::uint32_t>(kind);
    record.tile = tile;
  }

  /// Sleeps in one of four calls, for at most the longest delay that the launch asks for.
  __device__ void delay() {
    const std::uint32_t longest = state_.parameters->longest_delay_ns;
    if (longest == 0) {
      return;
    }
    state_.random = state_.random * 1664525U + 1013904223U;
    if ((state_.random >> 30U) == 0U) {
      __nanosleep((state_.random >> 8U) % longest);
    }
  }

 private:
  ProbeState& state_;
};

}  // namespace xstage::kernels
