// The run: cell by cell, each with its operands and variants made, timed, verified and given back.

#include "bench/ulysses_bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "bench/cuda/cell_run.hpp"
#include "bench/cuda/ulysses_variants.hpp"
#include "bench/cuda/ulysses_verify.hpp"

namespace xstage::bench {

namespace {

/// What lives as long as the run.
struct Machine {
  explicit Machine(const std::vector<int>& devices) : ranks(devices), standard(devices, 1.0, 1), weights(devices) {}
  Ranks ranks;
  StartGate gate;
  RandomBlock standard;
  WeightBlock weights;
};

class CellRun {
 public:
  CellRun(const UlyssesBenchOptions& options, const UlyssesBenchObserver& observer, Machine& machine,
          const UlyssesCell& cell)
      : options_(options),
        observer_(observer),
        machine_(machine),
        cell_(cell),
        operands_(machine.ranks, cell, machine.standard, machine.weights.for_depth(hidden_of(cell))),
        resources_{cell_, machine.ranks, operands_},
        variants_(resources_, options.variants) {}

  /// None if it was stopped.
  std::vector<UlyssesRow> run() {
    for (const std::string& name : options_.variants) {
      captured_.emplace_back(machine_.ranks, machine_.gate, variants_.variant(name));
    }
    std::vector<UlyssesRow> rows =
        time_variants<UlyssesRow>(machine_.ranks, machine_.gate, captured_, options_.trials, observer_);
    for (UlyssesRow& row : rows) {
      row.cell = cell_;
      row.l2 = operands_.l2_policy();
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
    set_largest_error(rows, captured.name(), error);
    const bool right = error <= most_roundings && differing == 0;
    observer_.note(fmt::format("{} {}: {}; {} elements differ from those of one call with waits", cell_name(cell_),
                               captured.name(), verdict_text(right, error), differing));
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

}  // namespace

UlyssesBenchOutcome run_ulysses_bench(const UlyssesBenchOptions& options, const UlyssesBenchObserver& observer) {
  Machine machine(options.devices);
  UlyssesBenchOutcome outcome;
  run_cells(options.cells, observer, outcome, [&](const UlyssesCell& cell) {
    CellRun run(options, observer, machine, cell);
    take_rows(run, options.verify, observer, outcome);
  });
  return outcome;
}

}  // namespace xstage::bench
