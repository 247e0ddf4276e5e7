// The run: cell by cell, each with its routing, operands and variants made, timed, verified and given back.

#include "bench/moe_bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "bench/cuda/moe_variants.hpp"
#include "bench/cuda/moe_verify.hpp"
#include "bench/sampling.hpp"

namespace xstage::bench {

namespace {

constexpr int most_single_calls = 9;
constexpr const char* verified = "unfused";

/// What lives as long as the run.
class Machine {
 public:
  explicit Machine(const std::vector<int>& devices) : ranks(devices), standard(devices, 1.0, 1), devices_(devices) {}

  /// Random numbers for weights; made anew only when the hidden size changes.
  const RandomBlock& for_weights(const MoeCell& cell) {
    const double deviation = 1 / std::sqrt(static_cast<double>(cell.shape.hidden));
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
  CellRun(const MoeBenchOptions& options, const MoeBenchObserver& observer, Machine& machine, const MoeCell& cell)
      : options_(options),
        observer_(observer),
        machine_(machine),
        cell_(cell),
        routing_(moe::make_routing(routing_request(cell))),
        operands_(machine.ranks, cell, routing_, machine.standard, machine.for_weights(cell)),
        resources_{cell_, routing_, machine.ranks, operands_},
        variants_(resources_, options.variants) {}

  /// None if it was stopped.
  std::vector<MoeRow> run() {
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
    const MoeLoad load = load_of(cell_, routing_);
    std::vector<MoeRow> rows;
    for (std::size_t index = 0; index < times.size(); ++index) {
      MoeRow row;
      row.cell = cell_;
      row.load = load;
      row.l2 = operands_.l2_policy();
      row.one_shot_us = one_shots[index];
      row.times = std::move(times[index]);
      rows.push_back(std::move(row));
    }
    add_ratios(rows);
    if (options_.drain_gb_per_s) {
      add_drain_shares(rows, *options_.drain_gb_per_s);
    }
    return rows;
  }

  /// What one more trial of the layer leaves behind is looked at, so that it is the timed graph that is verified. A row
  /// with wrong results is taken out. False if there is one.
  bool verify(std::vector<MoeRow>& rows) {
    const auto captured = std::find_if(captured_.begin(), captured_.end(),
                                       [](const CapturedVariant& variant) { return variant.name() == verified; });
    if (captured == captured_.end()) {
      return true;
    }
    variants_.poison_output();
    static_cast<void>(captured->run_trial(machine_.ranks, machine_.gate));
    const double error = largest_error(resources_, MoeOperands::set_of(captured->replays() - 1));
    const bool right = error <= most_roundings;
    observer_.note(fmt::format("{} {}: {}, largest error {:.3g} roundings of bf16, {} allowed", cell_name(cell_),
                               verified, right ? "verified" : "WRONG RESULTS", error, most_roundings));
    for (MoeRow& row : rows) {
      if (row.times.variant == verified) {
        row.largest_error = error;
      }
    }
    if (!right) {
      std::erase_if(rows, [](const MoeRow& row) { return row.times.variant == verified; });
    }
    return right;
  }

 private:
  const MoeBenchOptions& options_;
  const MoeBenchObserver& observer_;
  Machine& machine_;
  const MoeCell& cell_;
  moe::Routing routing_;
  MoeOperands operands_;
  MoeResources resources_;
  MoeVariants variants_;
  std::vector<CapturedVariant> captured_;
};

void run_cell(const MoeBenchOptions& options, const MoeBenchObserver& observer, Machine& machine, const MoeCell& cell,
              MoeBenchOutcome& outcome) {
  CellRun run(options, observer, machine, cell);
  std::vector<MoeRow> rows = run.run();
  if (options.verify && !rows.empty()) {
    outcome.wrong_cells += run.verify(rows) ? 0 : 1;
  }
  for (MoeRow& row : rows) {
    observer.row(row);
    outcome.rows.push_back(std::move(row));
  }
}

}  // namespace

MoeBenchOutcome run_moe_bench(const MoeBenchOptions& options, const MoeBenchObserver& observer) {
  Machine machine(options.devices);
  MoeBenchOutcome outcome;
  run_cells(options.cells, observer, outcome,
            [&](const MoeCell& cell) { run_cell(options, observer, machine, cell, outcome); });
  return outcome;
}

}  // namespace xstage::bench
