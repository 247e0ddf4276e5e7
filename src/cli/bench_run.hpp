#pragma once
/// A benchmark as the user sees it: a row a line while it runs, the result file after every cell, an exit code.

#include <fmt/format.h>

#include <functional>
#include <ostream>
#include <string>

#include "bench/bench_run.hpp"
#include "bench/result_file.hpp"
#include "bench/statistics.hpp"
#include "cli/bench_options.hpp"
#include "cli/console.hpp"
#include "cli/exit_code.hpp"
#include "cli/interrupt.hpp"
#include "cli/json_output.hpp"
#include "xstage/files.hpp"
#include "xstage/trace.hpp"

namespace xstage::cli {

/// What one verb does its own way. `Outcome` is a RunState with rows and, if the verb has --trace, a trace.
template <typename Outcome>
struct Benchmark {
  using Row = typename decltype(Outcome::rows)::value_type;
  using Observer = bench::BenchObserver<Row, Outcome>;

  std::function<Outcome(const Observer&)> measure;
  std::string heading;
  std::function<std::string(const Row&)> lines;        // of a row
  std::function<std::string(const Outcome&)> closing;  // lines below the last row; may be absent
  std::function<Json(const Outcome&)> document;        // the result, of as many cells as are done
  std::string why_no_trace;                            // if none was recorded
};

/// Null if there is none.
template <typename Outcome>
const trace::Trace* trace_of(const Outcome& outcome) {
  if constexpr (requires { outcome.trace; }) {
    return outcome.trace ? &*outcome.trace : nullptr;
  } else {
    return nullptr;
  }
}

/// What the run says to a script, and why. `output`: the file that has its `rows`, or empty.
[[nodiscard]] ExitCode verdict(Console& console, const std::string& output, std::size_t rows,
                               const bench::RunState& state);

/// The results file of a document, with `code`: what this process has launched so far.
[[nodiscard]] std::string results_text(const Console& console, Json document);

/// "1.034 [1.021, 1.050]".
[[nodiscard]] std::string ratio_with_interval(const bench::PairedRatio& ratio);

/// Measures all cells, as far as they come. `lines`: where rows go.
template <typename Outcome>
Outcome measure_cells(Console& console, const BenchOptions& options, const Benchmark<Outcome>& benchmark,
                      std::ostream& lines) {
  typename Benchmark<Outcome>::Observer observer;
  observer.row = [&](const auto& row) { lines << benchmark.lines(row) << std::flush; };
  observer.note = [&](const std::string& note) { console.err << "xstage: " << note << std::endl; };
  observer.proceed = [] { return !InterruptGuard::requested(); };
  // After every cell: what was measured is kept, whatever becomes of the rest.
  observer.cell_done = [&](const Outcome& outcome) {
    if (!options.output.empty()) {
      write_text(options.output, results_text(console, benchmark.document(outcome)));
    }
    if (const trace::Trace* trace = trace_of(outcome); trace != nullptr && !options.trace.empty()) {
      trace::write_perfetto(options.trace, *trace);
    }
  };
  return benchmark.measure(observer);
}

template <typename Outcome>
ExitCode run_benchmark(Console& console, const BenchOptions& options, const Benchmark<Outcome>& benchmark) {
  const InterruptGuard guard;
  std::ostream& lines = options.json ? console.err : console.out;
  lines << benchmark.heading << std::flush;
  const Outcome outcome = measure_cells(console, options, benchmark, lines);
  if (benchmark.closing) {
    lines << benchmark.closing(outcome);
  }
  if (options.json) {
    print_json(console.out, benchmark.document(outcome));
  } else if (!options.output.empty()) {
    console.out << fmt::format("\nWrote {} ({} rows)\n", options.output, outcome.rows.size());
  }
  if (!options.trace.empty() && trace_of(outcome) == nullptr) {
    console.err << fmt::format("xstage: {} was not written: {}\n", options.trace, benchmark.why_no_trace);
  }
  return verdict(console, options.output, outcome.rows.size(), outcome);
}

}  // namespace xstage::cli
