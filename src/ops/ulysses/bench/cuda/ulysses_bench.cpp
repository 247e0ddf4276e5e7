// The cells of `xstage bench ulysses` with all that they need on the GPUs.

#include "ops/ulysses/bench/ulysses_bench.hpp"

#include <fmt/format.h>

#include "bench/cuda/cell_run.hpp"
#include "ops/ulysses/bench/cuda/variants.hpp"
#include "ops/ulysses/bench/cuda/verify.hpp"

namespace xstage::bench {

namespace {

class UlyssesCellBench final : public CellBench {
 public:
  UlyssesCellBench(const UlyssesBenchOptions& options, const Ranks& ranks, const UlyssesCell& cell)
      : options_(options),
        cell_(cell),
        operands_(ranks, cell),
        resources_{cell_, ranks, operands_},
        variants_(resources_, options.variants) {}

  [[nodiscard]] const Ranks& ranks() const override { return resources_.ranks; }

  [[nodiscard]] std::vector<Variant> variants() override {
    std::vector<Variant> variants;
    for (const UlyssesVariant& entry : options_.variants) {
      variants.push_back(variants_.variant(entry));
      if (entry.among_ranks) {
        variants.back().poison = [this] { variants_.poison_results(); };
        variants.back().verify = [this](int call) { return verify(call); };
      }
    }
    return variants;
  }

  void add_figures(std::vector<Row>& rows) override { bench::add_figures(cell_, rows); }

 private:
  /// Compares the whole result with that of a single call, in which every kernel waits for its peers, and a sample of
  /// it with sums in double.
  Verification verify(int call) {
    Verification verdict;
    verdict.error = largest_error(resources_, variants_, operands_.set_of(call));
    const UlyssesResults results = read_results(resources_);
    variants_.poison_results();
    variants_.run_once_with_waits(call);
    const std::int64_t differing = count_differing(resources_, results);
    verdict.right = differing == 0;
    verdict.remark = fmt::format("{} elements differ from those of one call with waits", differing);
    return verdict;
  }

  const UlyssesBenchOptions& options_;
  const UlyssesCell& cell_;
  UlyssesOperands operands_;
  UlyssesResources resources_;
  UlyssesVariants variants_;
};

}  // namespace

Outcome run_ulysses_bench(const UlyssesBenchOptions& options, const std::vector<CellHead>& heads,
                          const Observer& observer) {
  const Ranks ranks(options.devices);
  StartGate gate;
  Outcome outcome;
  run_cells(heads, observer, outcome, [&](std::size_t index) {
    UlyssesCellBench cell(options, ranks, options.cells[index]);
    measure_cell(cell, heads[index], options, gate, observer, outcome);
  });
  return outcome;
}

}  // namespace xstage::bench
