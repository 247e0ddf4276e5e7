#pragma once
// A run of a benchmark, cell by cell: what the benchmarks have in common, without any GPU.

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/row.hpp"
#include "xstage/trace.hpp"

namespace xstage::bench {

/// Before each trial, as long as it takes at the least: long kernels are bound by power, and without a rest the clock
/// that a variant gets depends on what ran before it; two programs that measure different variants could not be
/// compared.
inline constexpr int rest_ms = 15;

/// A sustained figure is of so many seconds of replays, without rests; what counts is their second half.
inline constexpr double sustained_seconds = 2;

/// Which rows have a sustained figure.
enum class Sustained { none, readme, all };
/// "none", "readme" or "all". InputError for anything else.
[[nodiscard]] Sustained parse_sustained(std::string_view text);

/// What a run is asked for, whatever it measures.
struct RunOptions {
  std::vector<int> devices;  // one a rank
  int trials = 20;
  bool verify = false;
  bool spans = false;  // after the trials of a cell: calls of instrumented kernels, where the benchmark has them
  Sustained sustained = Sustained::none;
};

struct CellSeconds {
  std::string cell;
  double seconds = 0;
};

/// How far a run came.
struct Outcome {
  std::vector<Row> rows;
  Json header = Json::object();  // of the result file: what only the run knows
  std::optional<trace::Trace> trace;
  std::vector<CellSeconds> seconds;  // that each cell took
  int failed_cells = 0;
  int wrong_cells = 0;  // with results that are not right; they have no rows of them
  bool stopped = false;
};

/// Told while it runs.
struct Observer {
  std::function<void(const Row&)> row;
  std::function<void(const std::string&)> note;
  std::function<void(const Outcome&)> cell_done;
  std::function<bool()> proceed;  // false: stop before the next trial
};

/// `run_cell(index)` for all of them, until the observer says stop. One that fails is reported and left out.
void run_cells(const std::vector<CellHead>& cells, const Observer& observer, Outcome& outcome,
               const std::function<void(std::size_t cell)>& run_cell);

/// Header fields of a result file that all benchmarks have: `timing`, `rest_ms`, `multicast`, `sustained`.
void add_timing_header(Json& document, const RunOptions& options);

/// A line a cell with what it took, and their sum.
[[nodiscard]] std::string seconds_text(const Outcome& outcome);
[[nodiscard]] double total_seconds(const Outcome& outcome);

}  // namespace xstage::bench
