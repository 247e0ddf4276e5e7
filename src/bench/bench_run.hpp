#pragma once
// A run of a benchmark, cell by cell: what the benchmarks have in common.

#include <fmt/format.h>

#include <functional>
#include <string>
#include <vector>

#include "xstage/error.hpp"

namespace xstage::bench {

/// How far a run came. The outcome of a benchmark is one, with rows.
struct RunState {
  int failed_cells = 0;
  int wrong_cells = 0;  // with results that are not right; they have no rows of them
  bool stopped = false;
};

/// Told while it runs.
template <typename Row, typename Outcome>
struct BenchObserver {
  std::function<void(const Row&)> row;
  std::function<void(const std::string&)> note;
  std::function<void(const Outcome&)> cell_done;
  std::function<bool()> proceed;  // false: stop before the next trial
};

/// `run_cell(cell)` for all of them, until the observer says stop. One that fails is reported and left out.
template <typename Cell, typename Observer, typename Outcome, typename RunCell>
void run_cells(const std::vector<Cell>& cells, const Observer& observer, Outcome& outcome, const RunCell& run_cell) {
  const auto failed = [&](const Cell& cell, const char* reason) {
    ++outcome.failed_cells;
    observer.note(fmt::format("{}: {}", cell_name(cell), reason));
  };
  for (const Cell& cell : cells) {
    if (!observer.proceed()) {
      break;
    }
    try {
      run_cell(cell);
    } catch (const DeviceError& error) {
      failed(cell, error.what());
    } catch (const InputError& error) {
      failed(cell, error.what());
    }
    observer.cell_done(outcome);
  }
  outcome.stopped = !observer.proceed();
}

}  // namespace xstage::bench
