#pragma once
/// A benchmark as the user sees it: a row a line while it runs, the result file after every cell, an exit code.

#include <functional>
#include <string>
#include <vector>

#include "bench/bench_run.hpp"
#include "cli/bench_options.hpp"
#include "cli/console.hpp"
#include "cli/exit_code.hpp"
#include "cli/json_output.hpp"

namespace xstage::cli {

/// What one verb does its own way.
struct Benchmark {
  std::string name;  // of the result file
  std::vector<bench::CellHead> cells;
  bench::RunOptions run;
  std::function<bench::Outcome(const std::vector<bench::CellHead>& cells, const bench::Observer&)> measure;
  Json header = Json::object();                                             // of the result file, besides what all have
  std::function<void(Json& document, const bench::Outcome&)> add_findings;  // what follows from the rows; may be absent
  std::function<std::string(const bench::Outcome&)> closing;                // lines below the last row; may be absent
  std::string why_no_trace;                                                 // if none was recorded
};

/// The result, of as many cells as are done.
[[nodiscard]] Json result_of(const Benchmark& benchmark, const BenchTarget& target, const bench::Outcome& outcome);

/// Measures all cells, as far as they come, or lists them.
ExitCode run_benchmark(Console& console, const BenchOptions& options, const BenchTarget& target,
                       const Benchmark& benchmark);

}  // namespace xstage::cli
