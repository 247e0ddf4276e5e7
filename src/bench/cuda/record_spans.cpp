#include "bench/cuda/record_spans.hpp"

#include "bench/gemm_spans.hpp"

namespace xstage::bench {

namespace {

/// Instruments are on for as long as this lives.
class InstrumentsOn {
 public:
  InstrumentsOn(GemmHandles& handles, int ranks, const trace::SpanRecorder& recorder)
      : handles_(handles), ranks_(ranks) {
    for (int rank = 0; rank < ranks; ++rank) {
      handles.of_rank(rank).instrument(recorder.instruments(rank));
    }
  }
  InstrumentsOn(const InstrumentsOn&) = delete;
  InstrumentsOn& operator=(const InstrumentsOn&) = delete;
  ~InstrumentsOn() {
    for (int rank = 0; rank < ranks_; ++rank) {
      handles_.of_rank(rank).instrument({});
    }
  }

 private:
  GemmHandles& handles_;
  int ranks_;
};

}  // namespace

RecordedSpans record_spans(GemmHandles& fused, const CellResources& resources, StartGate& gate) {
  const Gemm& first = fused.of_rank(0);
  const int ranks = resources.ranks.count();
  // Outlives the graph, whose kernels write into it.
  trace::SpanRecorder recorder(fused.heap_ranks(), first.issuers(),
                               spans_of_a_role(first.problem(), first.plan(), ranks));
  const InstrumentsOn on(fused, ranks, recorder);
  const CapturedVariant captured(resources.ranks, gate, fused.variant("instrumented", resources));
  recorder.clear();
  // Every call of the graph writes the same tracks: what is left is the last one's.
  const double call_us = captured.run_trial(resources.ranks, gate);
  return {call_us, recorder.read()};
}

}  // namespace xstage::bench
