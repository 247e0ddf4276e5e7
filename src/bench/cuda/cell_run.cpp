#include "bench/cuda/cell_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "bench/sampling.hpp"

namespace xstage::bench {

namespace {

const RowHead& head_of_variant(const CellHead& cell, const std::string& variant) {
  const auto found =
      std::find_if(cell.rows.begin(), cell.rows.end(), [&](const RowHead& head) { return head.variant == variant; });
  if (found == cell.rows.end()) {
    throw std::logic_error(fmt::format("{}: the variant {} has no row", cell.name, variant));
  }
  return *found;
}

bool is_sustained(const RowHead& head, Sustained sustained) {
  return sustained == Sustained::all || (sustained == Sustained::readme && head.in_readme);
}

/// Verifies the results of one more trial, so that the timed graph itself is verified. Returns false if they are wrong.
bool verify(const CapturedVariant& captured, const Ranks& ranks, StartGate& gate, const std::string& cell, Row& row,
            const Observer& observer) {
  const Variant& variant = captured.variant();
  variant.poison();
  static_cast<void>(captured.run_trial(ranks, gate));
  const Verification verdict = variant.verify(captured.replays() - 1);
  const bool right = verdict.right && verdict.error <= most_roundings;
  row.largest_error = verdict.error;
  observer.note(fmt::format("{} {}: {}, largest error {:.3g} roundings of bf16, {} allowed{}{}", cell, variant.name,
                            right ? "verified" : "WRONG RESULTS", verdict.error, most_roundings,
                            verdict.remark.empty() ? "" : "; ", verdict.remark));
  return right;
}

}  // namespace

std::optional<trace::Trace> CellBench::add_spans(std::vector<Row>& /*rows*/, StartGate& /*gate*/,
                                                 const std::function<void(const std::string&)>& /*note*/) {
  return std::nullopt;
}

void measure_cell(CellBench& cell, const CellHead& head, const RunOptions& options, StartGate& gate,
                  const Observer& observer, Outcome& outcome) {
  const Ranks& ranks = cell.ranks();
  std::vector<CapturedVariant> captured;
  for (Variant& variant : cell.variants()) {
    captured.emplace_back(ranks, gate, std::move(variant));
  }
  std::vector<Times> times = time_variants(ranks, gate, captured, options.trials, observer.proceed);
  if (!observer.proceed()) {
    return;
  }
  std::vector<Row> rows(captured.size());
  for (std::size_t index = 0; index < rows.size(); ++index) {
    const Variant& variant = captured[index].variant();
    Row& row = rows[index];
    row.head = head_of_variant(head, variant.name);
    row.head.plans = variant.plans;
    row.l2 = variant.l2;
    row.times = std::move(times[index]);
    if (is_sustained(row.head, options.sustained)) {
      row.times.sustained_us = captured[index].run_sustained(ranks, sustained_seconds, microseconds(row));
    }
  }
  cell.add_figures(rows);
  if (options.spans) {
    if (auto trace = cell.add_spans(rows, gate, observer.note)) {
      outcome.trace = std::move(trace);
    }
  }
  bool all_right = true;
  for (std::size_t index = 0; index < rows.size(); ++index) {
    const bool right = !options.verify || !captured[index].variant().verify ||
                       verify(captured[index], ranks, gate, head.name, rows[index], observer);
    all_right = all_right && right;
    if (right) {
      observer.row(rows[index]);
      outcome.rows.push_back(std::move(rows[index]));
    }
  }
  outcome.wrong_cells += all_right ? 0 : 1;
}

}  // namespace xstage::bench
