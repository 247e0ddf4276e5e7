#pragma once
// The run of a benchmark, cell by cell: code that all benchmarks share and that needs no GPU.

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/row.hpp"
#include "xstage/trace.hpp"

namespace xstage::bench {

/// Shortest rest before each trial. Long kernels are bound by power, and without a rest the clock of a variant depends
/// on the variant that ran before it, so that two programs that measure different variants could not be compared.
inline constexpr int rest_ms = 15;

/// Length of the replays, without rests, from which a sustained figure is taken; only their second half counts.
inline constexpr double sustained_seconds = 2;

/// Which rows have a sustained figure.
enum class Sustained { none, readme, all };
/// "none", "readme" or "all". InputError for anything else.
[[nodiscard]] Sustained parse_sustained(std::string_view text);

/// Options of a run that all benchmarks share.
struct RunOptions {
  std::vector<int> devices;  // one for each rank
  int trials = 20;
  bool verify = false;
  // After the trials of a cell, calls of instrumented kernels are recorded, where the benchmark has them.
  bool spans = false;
  Sustained sustained = Sustained::none;
};

struct CellSeconds {
  std::string cell;
  double seconds = 0;
};

/// Results of a run.
struct Outcome {
  std::vector<Row> rows;
  Json header = Json::object();  // fields of the result file's header that only the run knows
  std::optional<trace::Trace> trace;
  std::vector<CellSeconds> seconds;  // seconds that each cell took
  int failed_cells = 0;
  int wrong_cells = 0;  // cells with wrong results, whose rows are left out
  bool stopped = false;
};

/// Callbacks during a run.
struct Observer {
  std::function<void(const Row&)> row;
  std::function<void(const std::string&)> note;
  std::function<void(const Outcome&)> cell_done;
  std::function<bool()> proceed;  // false: stop before the next trial
};

/// Calls `run_cell(index)` for all cells, until the observer says stop. A cell that fails is reported and left out.
void run_cells(const std::vector<CellHead>& cells, const Observer& observer, Outcome& outcome,
               const std::function<void(std::size_t cell)>& run_cell);

/// Header fields of a result file that all benchmarks have: `timing`, `rest_ms`, `multicast`, `sustained`.
void add_timing_header(Json& document, const RunOptions& options);

/// Text with the seconds of each cell, one a line, and their sum.
[[nodiscard]] std::string seconds_text(const Outcome& outcome);
[[nodiscard]] double total_seconds(const Outcome& outcome);

}  // namespace xstage::bench
