#pragma once
// The run of one cell, whatever it measures.

#include <optional>
#include <vector>

#include "bench/bench_run.hpp"
#include "bench/cuda/timing.hpp"
#include "xstage/trace.hpp"

namespace xstage::bench {

/// A cell with all that its variants need, as an operator makes it.
class CellBench {
 public:
  CellBench() = default;
  CellBench(const CellBench&) = delete;
  CellBench& operator=(const CellBench&) = delete;
  virtual ~CellBench() = default;

  /// The streams of its variants.
  [[nodiscard]] virtual const Ranks& ranks() const = 0;
  /// In the order in which they are measured; they refer to this object. Each has a row in the cell's head.
  [[nodiscard]] virtual std::vector<Variant> variants() = 0;
  /// Figures of the rows, whose times are there.
  virtual void add_figures(std::vector<Row>& rows) = 0;
  /// --spans: fields and remarks of the rows that have them, and a trace. Without them a row is still a measurement:
  /// `note` is told why there are none.
  virtual std::optional<trace::Trace> add_spans(std::vector<Row>& rows, StartGate& gate,
                                                const std::function<void(const std::string&)>& note);
};

/// Times the variants, and the sustained figures of those that have one; figures, spans and verdicts follow. The rows
/// go to the observer and the outcome; those with wrong results do not. None if the observer said stop.
void measure_cell(CellBench& cell, const CellHead& head, const RunOptions& options, StartGate& gate,
                  const Observer& observer, Outcome& outcome);

}  // namespace xstage::bench
