#pragma once
// Throw-away calls of the instrumented kernel.

#include "bench/cuda/gemm_variants.hpp"
#include "xstage/trace.hpp"

namespace xstage::bench {

struct RecordedSpans {
  double call_us = 0;  // one call, as the timed ones are measured
  trace::Trace trace;  // of the last call
};

/// Under the conditions of a trial: a graph of many calls on each GPU, all of which start together. `fused` has one
/// heap for all ranks, and afterwards launches the kernel without instruments again.
[[nodiscard]] RecordedSpans record_spans(GemmHandles& fused, const CellResources& resources, StartGate& gate);

}  // namespace xstage::bench
