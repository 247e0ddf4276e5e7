#pragma once
// What the runs of a cell have in common, whatever operation it measures: a row has `times`, `one_shot_us` and
// `largest_error`, a run has `run()` for its rows and `verify(rows)`.

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/cuda/timing.hpp"
#include "bench/sampling.hpp"

namespace xstage::bench {

/// Trials of all variants, alternating, then single calls: a row of each variant, in their order, with its times and
/// nothing else. None if the observer said stop.
template <typename Row, typename Observer>
[[nodiscard]] std::vector<Row> time_variants(const Ranks& ranks, StartGate& gate,
                                             std::vector<CapturedVariant>& variants, int trials,
                                             const Observer& observer) {
  constexpr int most_single_calls = 9;
  std::vector<VariantTimes> times = run_rounds(ranks, gate, variants, trials, observer.proceed);
  const std::vector<double> one_shots =
      run_single_calls(ranks, gate, variants, std::min(trials, most_single_calls), observer.proceed);
  if (!observer.proceed()) {
    return {};
  }
  std::vector<Row> rows(times.size());
  for (std::size_t index = 0; index < times.size(); ++index) {
    rows[index].one_shot_us = one_shots[index];
    rows[index].times = std::move(times[index]);
  }
  return rows;
}

/// --verify: the error of a variant's results, into its rows.
template <typename Row>
void set_largest_error(std::vector<Row>& rows, std::string_view variant, double error) {
  for (Row& row : rows) {
    if (row.times.variant == variant) {
      row.largest_error = error;
    }
  }
}

/// "verified, largest error 1.2 roundings of bf16, 2 allowed".
[[nodiscard]] inline std::string verdict_text(bool right, double error) {
  return fmt::format("{}, largest error {:.3g} roundings of bf16, {} allowed", right ? "verified" : "WRONG RESULTS",
                     error, most_roundings);
}

/// The rows of a run to the observer and the outcome, verified before if that is asked for.
template <typename Run, typename Observer, typename Outcome>
void take_rows(Run& run, bool verify, const Observer& observer, Outcome& outcome) {
  auto rows = run.run();
  if (verify && !rows.empty()) {
    outcome.wrong_cells += run.verify(rows) ? 0 : 1;
  }
  for (auto& row : rows) {
    observer.row(row);
    outcome.rows.push_back(std::move(row));
  }
}

}  // namespace xstage::bench
