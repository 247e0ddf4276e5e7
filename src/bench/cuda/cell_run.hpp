#pragma once
// The run of one cell of any benchmark.

#include <optional>
#include <vector>

#include "bench/bench_run.hpp"
#include "bench/cuda/timing.hpp"
#include "xstage/trace.hpp"

namespace xstage::bench {

/// A cell with everything that its variants need; each operator implements it.
class CellBench {
 public:
  CellBench() = default;
  CellBench(const CellBench&) = delete;
  CellBench& operator=(const CellBench&) = delete;
  virtual ~CellBench() = default;

  /// The streams of its variants.
  [[nodiscard]] virtual const Ranks& ranks() const = 0;
  /// The variants in the order in which they are measured. They refer to this object, and each has a row in the cell's
  /// head.
  [[nodiscard]] virtual std::vector<Variant> variants() = 0;
  /// Adds figures to the rows, whose times are complete.
  virtual void add_figures(std::vector<Row>& rows) = 0;
  /// For --spans: adds fields and remarks to the rows that have spans, and returns a trace. If there are no spans, the
  /// row is still a measurement, and `note` receives the reason.
  virtual std::optional<trace::Trace> add_spans(std::vector<Row>& rows, StartGate& gate,
                                                const std::function<void(const std::string&)>& note);
};

/// Times the variants, including sustained figures, then adds figures, spans and verdicts. The rows go to the observer
/// and the outcome, except rows with wrong results. No rows if the observer said stop.
void measure_cell(CellBench& cell, const CellHead& head, const RunOptions& options, StartGate& gate,
                  const Observer& observer, Outcome& outcome);

}  // namespace xstage::bench
