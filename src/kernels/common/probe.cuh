#pragma once
// Two instruments, compiled into a second instantiation of a kernel and absent from the first: spans (when did which role
// do what, on which tile) and delays (random sleeps at every signal, wait and store, which shake out wrong order).

#include <cstdint>

#include "kernels/common/signals.cuh"
#include "kernels/common/span_record.hpp"

namespace xstage::kernels {

/// The product's kernels: nothing is compiled in.
struct NoProbe {
  __device__ NoProbe(const ProbeParameters&, std::int32_t, SpanRole) {}
  __device__ void begin() {}
  __device__ void end(SpanKind, std::int32_t) {}
  __device__ void delay() {}
};

/// The instrumented instantiation. One object a role, used by one thread.
class RecordingProbe {
 public:
  __device__ RecordingProbe(const ProbeParameters& parameters, std::int32_t block, SpanRole role)
      : parameters_(parameters),
        slot_(block * span_roles + static_cast<std::int32_t>(role)),
        random_(parameters.delay_seed + static_cast<std::uint32_t>(slot_) * 0x9E3779B9U) {}

  __device__ void begin() { begin_ns_ = global_nanoseconds(); }

  __device__ void end(SpanKind kind, std::int32_t tile) {
    if (parameters_.spans == nullptr || count_ >= parameters_.spans_each) {
      return;
    }
    SpanRecord& record = parameters_.spans[slot_ * parameters_.spans_each + count_++];
    record.begin_ns = begin_ns_;
    record.end_ns = global_nanoseconds();
    record.kind = static_cast<std::uint32_t>(kind);
    record.tile = tile;
  }

  /// Sleeps in one of four calls, up to the longest delay asked for.
  __device__ void delay() {
    if (parameters_.longest_delay_ns == 0) {
      return;
    }
    random_ = random_ * 1664525U + 1013904223U;
    if ((random_ >> 30U) == 0U) {
      __nanosleep((random_ >> 8U) % parameters_.longest_delay_ns);
    }
  }

 private:
  const ProbeParameters& parameters_;
  std::int32_t slot_;
  std::uint32_t random_;
  std::int32_t count_ = 0;
  std::uint64_t begin_ns_ = 0;
};

}  // namespace xstage::kernels
