#pragma once
// Extra calls of an instrumented kernel, for any operation. Their times are not used.

#include <cstddef>
#include <functional>
#include <vector>

#include "bench/cuda/timing.hpp"
#include "xstage/instruments.hpp"
#include "xstage/symmetric_heap.hpp"
#include "xstage/trace.hpp"

namespace xstage::bench {

/// Handles that share one heap among all ranks, which has room for a span recorder.
struct Recordable {
  std::vector<HeapRank*> heap_ranks;
  int issuers = 0;          // CTAs of a launch
  int spans_of_a_role = 0;  // spans of one call
  std::function<void(int rank, const Instruments& instruments)> instrument;
  Variant variant;
};

/// Bytes of the heap for a span recorder, which uses a word to compare clocks.
inline constexpr std::size_t recorder_bytes = HeapRank::default_alignment;

struct RecordedSpans {
  double call_us = 0;  // one call, as the timed ones are measured
  trace::Trace trace;  // spans of the last call, and earlier spans that it did not overwrite
};

/// Records spans under the conditions of a trial: a graph of many calls on each GPU, all of which start together.
/// Afterwards the handles launch the kernel without instruments again.
[[nodiscard]] RecordedSpans record_spans(const Recordable& recordable, const Ranks& ranks, StartGate& gate);

}  // namespace xstage::bench
