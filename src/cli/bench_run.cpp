#include "cli/bench_run.hpp"

#include <fmt/format.h>

#include <ostream>

#include "cli/interrupt.hpp"
#include "report/code_record.hpp"
#include "report/result_file.hpp"
#include "xstage/files.hpp"
#include "xstage/trace.hpp"

namespace xstage::cli {

namespace {

/// What the run says to a script, and why.
ExitCode verdict(Console& console, const std::string& output, const bench::Outcome& outcome) {
  const std::string kept =
      output.empty() ? "" : fmt::format("; {} has the {} rows of the others", output, outcome.rows.size());
  if (outcome.stopped) {
    console.err << "xstage: interrupted" << kept << '\n';
    return ExitCode::device;
  }
  if (outcome.failed_cells > 0) {
    console.err << fmt::format("xstage: {} cells failed{}\n", outcome.failed_cells, kept);
    return ExitCode::device;
  }
  if (outcome.wrong_cells > 0) {
    console.err << fmt::format("xstage: {} cells have wrong results{}\n", outcome.wrong_cells, kept);
    return ExitCode::test_failed;
  }
  return ExitCode::success;
}

/// The results file of a document, with `code`: what this process has launched so far.
std::string results_text(const Console& console, Json document) {
  document["code"] = bench::code_record(console.fingerprints, document.at("bench"), bench::launched_kernels());
  return bench::format_result_file(document);
}

/// `lines`: where rows go.
bench::Outcome measure_cells(Console& console, const BenchOptions& options, const BenchTarget& target,
                             const Benchmark& benchmark, std::ostream& lines) {
  bench::Observer observer;
  observer.row = [&](const bench::Row& row) { lines << bench::table_lines(row) << std::flush; };
  observer.note = [&](const std::string& note) { console.err << "xstage: " << note << std::endl; };
  observer.proceed = [] { return !InterruptGuard::requested(); };
  // After every cell: what was measured is kept, whatever becomes of the rest.
  observer.cell_done = [&](const bench::Outcome& outcome) {
    if (!options.output.empty()) {
      write_text(options.output, results_text(console, result_of(benchmark, target, outcome)));
    }
    if (outcome.trace && !options.trace.empty()) {
      trace::write_perfetto(options.trace, *outcome.trace);
    }
  };
  return benchmark.measure(benchmark.cells, observer);
}

}  // namespace

Json result_of(const Benchmark& benchmark, const BenchTarget& target, const bench::Outcome& outcome) {
  Json json = bench::result_document(benchmark.name, target.node, target.devices);
  json["seconds"] = bench::rounded(bench::total_seconds(outcome));
  json.update(outcome.header);
  bench::add_timing_header(json, benchmark.run);
  json.update(benchmark.header);
  if (benchmark.add_findings) {
    benchmark.add_findings(json, outcome);
  }
  json["rows"] = bench::rows_json(outcome.rows);
  return json;
}

ExitCode run_benchmark(Console& console, const BenchOptions& options, const BenchTarget& target,
                       const Benchmark& benchmark) {
  if (options.list) {
    print_json(console.out, bench::list_json(benchmark.cells));
    return ExitCode::success;
  }
  const InterruptGuard guard;
  std::ostream& lines = options.json ? console.err : console.out;
  lines << bench::table_heading(target.ranks()) << std::flush;
  const bench::Outcome outcome = measure_cells(console, options, target, benchmark, lines);
  if (benchmark.closing) {
    lines << benchmark.closing(outcome);
  }
  lines << bench::seconds_text(outcome);
  if (options.json) {
    print_json(console.out, result_of(benchmark, target, outcome));
  } else if (!options.output.empty()) {
    console.out << fmt::format("\nWrote {} ({} rows)\n", options.output, outcome.rows.size());
  }
  if (!options.trace.empty() && !outcome.trace) {
    console.err << fmt::format("xstage: {} was not written: {}\n", options.trace, benchmark.why_no_trace);
  }
  return verdict(console, options.output, outcome);
}

}  // namespace xstage::cli
