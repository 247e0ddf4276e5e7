// The cells of `xstage bench gemm` with all that they need on the GPUs.

#include "ops/gemm/bench/gemm_bench.hpp"

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <utility>

#include "bench/cuda/cell_run.hpp"
#include "bench/cuda/record_spans.hpp"
#include "ops/gemm/bench/cuda/variants.hpp"
#include "ops/gemm/bench/cuda/verify.hpp"
#include "ops/gemm/bench/prediction.hpp"
#include "xstage/error.hpp"

namespace xstage::bench {

namespace {

/// Objects that live as long as the run.
class GemmMachine {
 public:
  explicit GemmMachine(const GemmBenchOptions& options) : all_(options.devices), first_({options.devices.front()}) {
    std::string absent;
    const auto library = CublasLibrary::load(options.cublas_path, absent);
    cublas_ = absent;
    if (library != nullptr) {
      for (int rank = 0; rank < all_.count(); ++rank) {
        of_all_.emplace_back(library, all_.device(rank), all_.stream(rank));
      }
      of_first_.emplace_back(library, first_.device(0), first_.stream(0));
      cublas_ = of_first_.front().version();
    }
  }

  [[nodiscard]] const Ranks& ranks(const GemmCell& cell) const { return cell.ranks == 1 ? first_ : all_; }
  [[nodiscard]] const std::vector<CublasHandle>& cublas(const GemmCell& cell) const {
    return cell.ranks == 1 ? of_first_ : of_all_;
  }
  [[nodiscard]] bool has_cublas() const { return !of_first_.empty(); }
  [[nodiscard]] const std::string& cublas_text() const { return cublas_; }
  [[nodiscard]] StartGate& gate() { return gate_; }

 private:
  Ranks all_;
  Ranks first_;
  std::string cublas_;
  std::vector<CublasHandle> of_all_;
  std::vector<CublasHandle> of_first_;
  StartGate gate_;
};

class GemmCellBench final : public CellBench {
 public:
  GemmCellBench(const GemmBenchOptions& options, const GemmMachine& machine, const GemmCell& cell)
      : options_(options),
        cell_(cell),
        cublas_(machine.cublas(cell)),
        operands_(machine.ranks(cell), cell),
        resources_{cell_, machine.ranks(cell), operands_, options.plan} {}

  [[nodiscard]] const Ranks& ranks() const override { return resources_.ranks; }

  [[nodiscard]] std::vector<Variant> variants() override {
    std::vector<Variant> variants;
    for (const GemmVariant& entry : options_.variants) {
      if (!has_variant(cell_, entry)) {
        continue;
      }
      if (entry.way == GemmWay::cublas) {
        if (!cublas_.empty()) {
          variants.push_back(cublas_variant(cublas_, resources_));
        }
      } else if (entry.way != GemmWay::local_twin || can_run_without_peers()) {
        variants.push_back(make_own(entry));
      }
    }
    return variants;
  }

  void add_figures(std::vector<Row>& rows) override {
    bench::add_figures(cell_, rows);
    if (options_.predictions && alone_ && fused_) {
      predicted_spans_ =
          add_prediction(cell_, alone_->of_rank(0).plan(), fused_->of_rank(0).plan(), rows, *options_.predictions);
    }
  }

  /// Adds the spans of the row `fused`, if there is one.
  std::optional<trace::Trace> add_spans(std::vector<Row>& rows, StartGate& gate,
                                        const std::function<void(const std::string&)>& note) override {
    Row* row = find_variant(rows, "fused");
    if (row == nullptr || !fused_) {
      return std::nullopt;
    }
    const Plan& plan = fused_->of_rank(0).plan();
    std::string absent = why_no_spans(plan);
    if (absent.empty()) {
      try {
        RecordedSpans recorded = record_spans(fused_->recordable(resources_), resources_.ranks, gate);
        GemmSpans spans = sum_up(recorded.trace, cell_.problem, plan);
        spans.call_us = recorded.call_us;
        row->figures["spans"] = spans_json(spans, predicted_spans_);
        row->remark = "spans: " + comparison_text(spans, predicted_spans_);
        return std::move(recorded.trace);
      } catch (const DeviceError& error) {
        absent = error.what();
      }
    }
    note(fmt::format("{}: no spans: {}", cell_name(cell_), absent));
    return std::nullopt;
  }

 private:
  [[nodiscard]] bool can_run_without_peers() const {
    const int world = resources_.ranks.count();
    return why_no_local_twin(
               cell_.problem,
               choose_plan(cell_.problem, world, multiprocessors_of(resources_.ranks.device(0)), options_.plan), world)
        .empty();
  }

  std::unique_ptr<GemmHandles>& handles_of(GemmWay way) {
    if (way == GemmWay::alone) {
      return alone_;
    }
    return way == GemmWay::fused ? fused_ : twin_;
  }

  Variant make_own(const GemmVariant& entry) {
    std::unique_ptr<GemmHandles>& handles = handles_of(entry.way);
    handles = std::make_unique<GemmHandles>(resources_, entry.way);
    Variant variant = handles->variant(entry, resources_);
    // Verifies this library's GEMM where nothing is fused, and otherwise the fused operation. A local twin is not
    // verified: it stores results for peers into scratch memory.
    const bool is_gemm = cell_.problem.operation == gemm::Operation::gemm;
    if (entry.way == (is_gemm ? GemmWay::alone : GemmWay::fused)) {
      GemmHandles& verified = *handles;
      variant.poison = [this, &verified] { poison_results(resources_, verified); };
      variant.verify = [this, &verified](int call) {
        Verification verdict;
        verdict.error = largest_error(resources_, verified, operands_.set_of(call));
        return verdict;
      };
    }
    return variant;
  }

  const GemmBenchOptions& options_;
  const GemmCell& cell_;
  const std::vector<CublasHandle>& cublas_;
  GemmOperands operands_;
  GemmResources resources_;
  std::unique_ptr<GemmHandles> alone_;
  std::unique_ptr<GemmHandles> fused_;
  std::unique_ptr<GemmHandles> twin_;
  std::optional<PredictedSpans> predicted_spans_;
};

}  // namespace

Outcome run_gemm_bench(const GemmBenchOptions& options, const std::vector<CellHead>& heads, const Observer& observer) {
  GemmMachine machine(options);
  Outcome outcome;
  outcome.header["cublas"] = machine.cublas_text();
  if (!machine.has_cublas()) {
    observer.note("no variant cublas: " + machine.cublas_text());
  }
  run_cells(heads, observer, outcome, [&](std::size_t index) {
    GemmCellBench cell(options, machine, options.cells[index]);
    measure_cell(cell, heads[index], options, machine.gate(), observer, outcome);
  });
  return outcome;
}

}  // namespace xstage::bench
