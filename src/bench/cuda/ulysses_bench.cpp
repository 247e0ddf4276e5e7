// The run: cell by cell, each with its operands and variants made, timed, verified and given back.

#include "bench/ulysses_bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "bench/cuda/ulysses_variants.hpp"
#include "bench/cuda/ulysses_verify.hpp"
#include "bench/sampling.hpp"

namespace xstage::bench {

namespace {

constexpr int most_single_calls = 9;

/// What lives as long as the run.
class Machine {
 public:
  explicit Machine(const std::vector<int>& devices) : ranks(devices), standard(devices, 1.0, 1), devices_(devices) {}

  /// Random numbers for weights; made anew only when the hidden size changes.
  const RandomBlock& for_weights(const UlyssesCell& cell) {
    const double deviation = 1 / std::sqrt(static_cast<double>(hidden_of(cell)));
    if (scaled_ == nullptr || scaled_->deviation() != deviation) {
      scaled_.reset();
      scaled_ = std::make_unique<RandomBlock>(devices_, deviation, 2);
    }
    return *scaled_;
  }

  Ranks ranks;
  StartGate gate;
  RandomBlock standard;

 private:
  std::vector<int> devices_;
  std::unique_ptr<RandomBlock> scaled_;
};

class CellRun {
 public:
  CellRun(const UlyssesBenchOptions& options, const UlyssesBenchObserver& observer, Machine& machine,
          const UlyssesCell& cell)
      : options_(options),
        observer_(observer),
        machine_(machine),
        cell_(cell),
        operands_(machine.ranks, cell, machine.standard, machine.for_weights(cell)),
        resources_{cell_, machine.ranks, operands_},
        variants_(resources_, options.variants) {}

  /// None if it was stopped.
  std::vector<UlyssesRow> run() {
    for (const std::string& name : options_.variants) {
      captured_.emplace_back(machine_.ranks, machine_.gate, variants_.variant(name));
    }
    std::vector<VariantTimes> times =
        run_rounds(machine_.ranks, machine_.gate, captured_, options_.trials, observer_.proceed);
    const std::vector<double> one_shots = run_single_calls(
        machine_.ranks, machine_.gate, captured_, std::min(options_.trials, most_single_calls), observer_.proceed);
    if (!observer_.proceed()) {
      return {};
    }
    std::vector<UlyssesRow> rows;
    for (std::size_t index = 0; index < times.size(); ++index) {
      UlyssesRow row;
      row.cell = cell_;
      row.l2 = operands_.l2_policy();
      row.one_shot_us = one_shots[index];
      row.times = std::move(times[index]);
      rows.push_back(std::move(row));
    }
    add_ratios(rows);
    return rows;
  }

  /// Of `fused` and `flags`. Rows with wrong results are taken out. False if there is one.
  bool verify(std::vector<UlyssesRow>& rows) {
    bool right = true;
    for (const CapturedVariant& captured : captured_) {
      if (is_among_ranks(captured.name()) && !verify(rows, captured)) {
        std::erase_if(rows, [&](const UlyssesRow& row) { return row.times.variant == captured.name(); });
        right = false;
      }
    }
    return right;
  }

 private:
  /// What one more trial leaves behind is looked at, so that it is the timed graph that is verified: in full beside one
  /// call by itself, in which every kernel waits for its peers, and on a sample in double.
  bool verify(std::vector<UlyssesRow>& rows, const CapturedVariant& captured) const {
    variants_.poison_results();
    static_cast<void>(captured.run_trial(machine_.ranks, machine_.gate));
    const int last_call = captured.replays() - 1;
    const double error = largest_error(resources_, variants_, operands_.set_of(last_call));
    const UlyssesResults results = read_results(resources_);
    variants_.poison_results();
    variants_.run_once("fused", last_call);
    const std::int64_t differing = count_differing(resources_, results);
    for (UlyssesRow& row : rows) {
      if (row.times.variant == captured.name()) {
        row.largest_error = error;
      }
    }
    const bool right = error <= most_roundings && differing == 0;
    observer_.note(fmt::format(
        "{} {}: {}, largest error {:.3g} roundings of bf16, {} allowed; {} elements differ from "
        "those of one call with waits",
        cell_name(cell_), captured.name(), right ? "verified" : "WRONG RESULTS", error, most_roundings, differing));
    return right;
  }

  const UlyssesBenchOptions& options_;
  const UlyssesBenchObserver& observer_;
  Machine& machine_;
  const UlyssesCell& cell_;
  UlyssesOperands operands_;
  UlyssesResources resources_;
  UlyssesVariants variants_;
  std::vector<CapturedVariant> captured_;
};

void run_cell(const UlyssesBenchOptions& options, const UlyssesBenchObserver& observer, Machine& machine,
              const UlyssesCell& cell, UlyssesBenchOutcome& outcome) {
  CellRun run(options, observer, machine, cell);
  std::vector<UlyssesRow> rows = run.run();
  if (options.verify && !rows.empty()) {
    outcome.wrong_cells += run.verify(rows) ? 0 : 1;
  }
  for (UlyssesRow& row : rows) {
    observer.row(row);
    outcome.rows.push_back(std::move(row));
  }
}

}  // namespace

UlyssesBenchOutcome run_ulysses_bench(const UlyssesBenchOptions& options, const UlyssesBenchObserver& observer) {
  Machine machine(options.devices);
  UlyssesBenchOutcome outcome;
  run_cells(options.cells, observer, outcome,
            [&](const UlyssesCell& cell) { run_cell(options, observer, machine, cell, outcome); });
  return outcome;
}

}  // namespace xstage::bench
