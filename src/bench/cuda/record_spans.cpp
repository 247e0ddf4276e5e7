#include "bench/cuda/record_spans.hpp"

namespace xstage::bench {

namespace {

/// Switches instruments on during its lifetime.
class InstrumentsOn {
 public:
  InstrumentsOn(const Recordable& recordable, int ranks, const trace::SpanRecorder& recorder)
      : recordable_(recordable), ranks_(ranks) {
    for (int rank = 0; rank < ranks; ++rank) {
      recordable.instrument(rank, recorder.instruments(rank));
    }
  }
  InstrumentsOn(const InstrumentsOn&) = delete;
  InstrumentsOn& operator=(const InstrumentsOn&) = delete;
  ~InstrumentsOn() {
    for (int rank = 0; rank < ranks_; ++rank) {
      recordable_.instrument(rank, {});
    }
  }

 private:
  const Recordable& recordable_;
  int ranks_;
};

}  // namespace

RecordedSpans record_spans(const Recordable& recordable, const Ranks& ranks, StartGate& gate) {
  // Declared first so that it outlives the graph, whose kernels write into it.
  trace::SpanRecorder recorder(recordable.heap_ranks, recordable.issuers, recordable.spans_of_a_role);
  const InstrumentsOn on(recordable, ranks.count(), recorder);
  const CapturedVariant captured(ranks, gate, recordable.variant);
  recorder.clear();
  // Every call of the graph writes the same tracks. They then hold the spans of the last call, and behind them spans of
  // earlier calls where the last call recorded less.
  const double call_us = captured.run_trial(ranks, gate);
  return {call_us, recorder.read()};
}

}  // namespace xstage::bench
