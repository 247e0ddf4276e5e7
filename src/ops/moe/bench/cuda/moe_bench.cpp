// The cells of `xstage bench moe` with all that they need on the GPUs.

#include "ops/moe/bench/moe_bench.hpp"

#include <optional>

#include "bench/cuda/cell_run.hpp"
#include "ops/moe/bench/cuda/variants.hpp"
#include "ops/moe/bench/cuda/verify.hpp"

namespace xstage::bench {

namespace {

/// Objects that live as long as the run.
class MoeMachine {
 public:
  explicit MoeMachine(const std::vector<int>& devices) : ranks_(devices) {}
  [[nodiscard]] const Ranks& ranks() const { return ranks_; }
  [[nodiscard]] StartGate& gate() { return gate_; }
  /// The weights of a shape, valid until those of another shape are requested.
  const MoeWeights& weights_of(const moe::Shape& shape) {
    if (!weights_ || weights_->shape() != shape.name) {
      weights_.reset();  // freed before the new ones are allocated
      weights_.emplace(ranks_, shape);
    }
    return *weights_;
  }

 private:
  Ranks ranks_;
  StartGate gate_;
  std::optional<MoeWeights> weights_;
};

class MoeCellBench final : public CellBench {
 public:
  MoeCellBench(const MoeBenchOptions& options, MoeMachine& machine, const MoeCell& cell)
      : options_(options),
        cell_(cell),
        routing_(moe::make_routing(routing_request(cell))),
        operands_(machine.ranks(), cell, routing_, machine.weights_of(cell.shape)),
        resources_{cell_, routing_, machine.ranks(), operands_},
        variants_(resources_, options.variants) {}

  [[nodiscard]] const Ranks& ranks() const override { return resources_.ranks; }

  [[nodiscard]] std::vector<Variant> variants() override {
    std::vector<Variant> variants;
    for (const MoeVariant& entry : options_.variants) {
      variants.push_back(variants_.variant(entry));
      if (entry.part == MoePart::layer) {
        variants.back().poison = [this] { variants_.poison_output(); };
        variants.back().verify = [this, combine = entry.combine](int call) {
          Verification verdict;
          verdict.error = largest_error(resources_, MoeOperands::set_of(call), combine);
          return verdict;
        };
      }
    }
    return variants;
  }

  void add_figures(std::vector<Row>& rows) override {
    bench::add_figures(load_of(cell_, routing_), cell_, rows, options_.drain_gb_per_s);
  }

 private:
  const MoeBenchOptions& options_;
  const MoeCell& cell_;
  moe::Routing routing_;
  MoeOperands operands_;
  MoeResources resources_;
  MoeVariants variants_;
};

}  // namespace

Outcome run_moe_bench(const MoeBenchOptions& options, const std::vector<CellHead>& heads, const Observer& observer) {
  MoeMachine machine(options.devices);
  Outcome outcome;
  run_cells(heads, observer, outcome, [&](std::size_t index) {
    MoeCellBench cell(options, machine, options.cells[index]);
    measure_cell(cell, heads[index], options, machine.gate(), observer, outcome);
  });
  return outcome;
}

}  // namespace xstage::bench
