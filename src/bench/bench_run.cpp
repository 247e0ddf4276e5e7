#include "bench/bench_run.hpp"

#include <fmt/format.h>

#include <chrono>

#include "xstage/error.hpp"

namespace xstage::bench {

Sustained parse_sustained(std::string_view text) {
  if (text == "none") {
    return Sustained::none;
  }
  if (text == "readme") {
    return Sustained::readme;
  }
  if (text == "all") {
    return Sustained::all;
  }
  throw InputError(fmt::format("sustained '{}': one of none, readme, all", text));
}

void run_cells(const std::vector<CellHead>& cells, const Observer& observer, Outcome& outcome,
               const std::function<void(std::size_t cell)>& run_cell) {
  const auto failed = [&](const CellHead& cell, const char* reason) {
    ++outcome.failed_cells;
    observer.note(fmt::format("{}: {}", cell.name, reason));
  };
  for (std::size_t index = 0; index < cells.size() && observer.proceed(); ++index) {
    const CellHead& cell = cells[index];
    const auto begin = std::chrono::steady_clock::now();
    try {
      run_cell(index);
    } catch (const DeviceError& error) {
      failed(cell, error.what());
    } catch (const InputError& error) {
      failed(cell, error.what());
    }
    outcome.seconds.push_back(
        {cell.name, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count()});
    observer.cell_done(outcome);
  }
  outcome.stopped = !observer.proceed();
}

void add_timing_header(Json& document, const RunOptions& options) {
  document["timing"] = fmt::format(
      "microseconds of one call in a CUDA graph of `replays` calls, maximum over ranks, which start together; trials "
      "of a cell's variants alternate, each on a GPU that has rested for {} ms; a call ends when its results are "
      "complete on its rank, peers' parts included, unless its variant says otherwise; one_shot_us: one call from "
      "rest, "
      "until results are complete on every rank",
      rest_ms);
  document["rest_ms"] = rest_ms;
  document["multicast"] = "off";
  if (options.sustained != Sustained::none) {
    document["sustained"] =
        fmt::format("sustained_us: the same graphs back to back without rests for {:g} s, the second half of them",
                    sustained_seconds);
  }
}

double total_seconds(const Outcome& outcome) {
  double sum = 0;
  for (const CellSeconds& cell : outcome.seconds) {
    sum += cell.seconds;
  }
  return sum;
}

std::string seconds_text(const Outcome& outcome) {
  std::string text;
  for (const CellSeconds& cell : outcome.seconds) {
    text += fmt::format("{:8.1f} s  {}\n", cell.seconds, cell.cell);
  }
  return text + fmt::format("{:8.1f} s  {} cells\n", total_seconds(outcome), outcome.seconds.size());
}

}  // namespace xstage::bench
