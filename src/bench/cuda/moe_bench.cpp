// The run: cell by cell, each with its routing, operands and variants made, timed, verified and given back.

#include "bench/moe_bench.hpp"

#include <fmt/format.h>

#include <utility>

#include "bench/cuda/cell_run.hpp"
#include "bench/cuda/moe_variants.hpp"
#include "bench/cuda/moe_verify.hpp"

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
  CellRun(const MoeBenchOptions& options, const MoeBenchObserver& observer, Machine& machine, const MoeCell& cell)
      : options_(options),
        observer_(observer),
        machine_(machine),
        cell_(cell),
        routing_(moe::make_routing(routing_request(cell))),
        operands_(machine.ranks, cell, routing_, machine.standard, machine.weights.for_depth(cell.shape.hidden)),
        resources_{cell_, routing_, machine.ranks, operands_},
        variants_(resources_, options.variants) {}

  /// None if it was stopped.
  std::vector<MoeRow> run() {
    for (const std::string& name : options_.variants) {
      captured_.emplace_back(machine_.ranks, machine_.gate, variants_.variant(name));
    }
    std::vector<MoeRow> rows =
        time_variants<MoeRow>(machine_.ranks, machine_.gate, captured_, options_.trials, observer_);
    const MoeLoad load = load_of(cell_, routing_);
    for (MoeRow& row : rows) {
      row.cell = cell_;
      row.load = load;
      row.l2 = operands_.l2_policy();
    }
    add_ratios(rows);
    if (options_.drain_gb_per_s) {
      add_drain_shares(rows, *options_.drain_gb_per_s);
    }
    return rows;
  }

  /// What one more trial of each layer leaves behind is looked at, so that it is the timed graph that is verified. A
  /// row with wrong results is taken out. False if there is one.
  bool verify(std::vector<MoeRow>& rows) {
    bool right = true;
    for (CapturedVariant& variant : captured_) {
      if (is_layer(variant.name())) {
        right = verify_layer(variant, rows) && right;
      }
    }
    return right;
  }

 private:
  bool verify_layer(CapturedVariant& layer, std::vector<MoeRow>& rows) {
    const std::string& name = layer.name();
    variants_.poison_output();
    static_cast<void>(layer.run_trial(machine_.ranks, machine_.gate));
    const double error = largest_error(resources_, MoeOperands::set_of(layer.replays() - 1), combine_of(name));
    const bool right = error <= most_roundings;
    observer_.note(fmt::format("{} {}: {}", cell_name(cell_), name, verdict_text(right, error)));
    set_largest_error(rows, name, error);
    if (!right) {
      std::erase_if(rows, [&](const MoeRow& row) { return row.times.variant == name; });
    }
    return right;
  }

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

}  // namespace

MoeBenchOutcome run_moe_bench(const MoeBenchOptions& options, const MoeBenchObserver& observer) {
  Machine machine(options.devices);
  MoeBenchOutcome outcome;
  run_cells(options.cells, observer, outcome, [&](const MoeCell& cell) {
    CellRun run(options, observer, machine, cell);
    take_rows(run, options.verify, observer, outcome);
  });
  return outcome;
}

}  // namespace xstage::bench
