// The run: cell by cell, each with its operands and variants made, timed, verified and given back.

#include "bench/gemm_bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

#include "bench/cuda/cell_run.hpp"
#include "bench/cuda/gemm_variants.hpp"
#include "bench/cuda/local_twin.hpp"
#include "bench/cuda/record_spans.hpp"
#include "bench/cuda/verify.hpp"
#include "bench/sampled_result.hpp"
#include "xstage/error.hpp"

namespace xstage::bench {

namespace {

/// What lives as long as the run.
class Machine {
 public:
  explicit Machine(const GemmBenchOptions& options)
      : all_(options.devices), first_({options.devices.front()}), weights_(options.devices) {
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
    standard_ = std::make_unique<RandomBlock>(options.devices, 1.0, 1);
  }

  [[nodiscard]] const Ranks& ranks(const GemmCell& cell) const { return cell.ranks == 1 ? first_ : all_; }
  [[nodiscard]] const std::vector<CublasHandle>& cublas(const GemmCell& cell) const {
    return cell.ranks == 1 ? of_first_ : of_all_;
  }
  [[nodiscard]] bool has_cublas() const { return !of_first_.empty(); }
  [[nodiscard]] const std::string& cublas_text() const { return cublas_; }
  [[nodiscard]] const RandomBlock& standard_block() const { return *standard_; }
  [[nodiscard]] StartGate& gate() { return gate_; }

  [[nodiscard]] WeightBlock& weights() { return weights_; }

 private:
  Ranks all_;
  Ranks first_;
  std::string cublas_;
  std::vector<CublasHandle> of_all_;
  std::vector<CublasHandle> of_first_;
  StartGate gate_;
  std::unique_ptr<RandomBlock> standard_;
  WeightBlock weights_;
};

/// A variant of ours with everything that it needs.
struct OwnVariant {
  const char* name;
  std::unique_ptr<GemmHandles> handles;
};

std::vector<OwnVariant> make_own_variants(const CellResources& resources, bool local_twin,
                                          const GemmBenchObserver& observer) {
  std::vector<OwnVariant> variants;
  variants.push_back({"alone", make_alone(resources)});
  if (resources.cell.problem.operation == gemm::Operation::gemm) {
    return variants;
  }
  variants.push_back({"fused", make_fused(resources)});
  if (!local_twin) {
    return variants;
  }
  const std::string absent = why_no_local_twin(variants.back().handles->of_rank(0), resources.cell.ranks);
  if (absent.empty()) {
    variants.push_back({"local_twin", make_local_twin(resources)});
  } else {
    observer.note(fmt::format("{}: no variant local_twin: {}", cell_name(resources.cell), absent));
  }
  return variants;
}

/// What a cell adds to the outcome.
struct CellOutcome {
  std::vector<GemmRow> rows;  // none if it was stopped
  bool right = true;
  std::optional<trace::Trace> trace;
};

class CellRun {
 public:
  CellRun(const GemmBenchOptions& options, const GemmBenchObserver& observer, Machine& machine, const GemmCell& cell)
      : options_(options),
        observer_(observer),
        machine_(machine),
        cell_(cell),
        operands_(machine.ranks(cell), cell, machine.standard_block(), machine.weights().for_depth(cell.problem.k)),
        resources_{cell_, machine.ranks(cell), operands_, machine.standard_block(), options.plan},
        own_(make_own_variants(resources_, options.local_twin, observer)) {}

  CellOutcome run() {
    capture();
    std::vector<VariantTimes> times =
        run_rounds(resources_.ranks, machine_.gate(), captured_, options_.trials, observer_.proceed);
    CellOutcome outcome;
    std::vector<GemmRow>& rows = outcome.rows;
    for (VariantTimes& of_variant : times) {
      if (of_variant.trials_us.size() < static_cast<std::size_t>(options_.trials)) {
        return {};
      }
      GemmRow row;
      row.cell = cell_;
      row.l2 = operands_.l2_policy();
      row.plan = plan_of(of_variant.variant);
      row.times = std::move(of_variant);
      rows.push_back(std::move(row));
    }
    add_ratios(rows);
    if (options_.predictions) {
      add_predictions(rows, *options_.predictions);
    }
    if (options_.spans) {
      outcome.trace = add_spans(rows);
    }
    outcome.right = !options_.verify || verify(rows);
    return outcome;
  }

 private:
  void capture() {
    const std::vector<CublasHandle>& cublas = machine_.cublas(cell_);
    if (!cublas.empty()) {
      captured_.emplace_back(resources_.ranks, machine_.gate(), cublas_variant(cublas, resources_));
    }
    for (OwnVariant& own : own_) {
      captured_.emplace_back(resources_.ranks, machine_.gate(), own.handles->variant(own.name, resources_));
    }
  }

  [[nodiscard]] std::optional<Plan> plan_of(const std::string& name) const {
    for (const OwnVariant& own : own_) {
      if (own.name == name) {
        return own.handles->of_rank(0).plan();
      }
    }
    return std::nullopt;
  }

  /// To the row `fused`, if there is one; the trace that they are from. Without them the row is still a measurement.
  std::optional<trace::Trace> add_spans(std::vector<GemmRow>& rows) {
    const auto fused =
        std::find_if(rows.begin(), rows.end(), [](const GemmRow& row) { return row.times.variant == "fused"; });
    if (fused == rows.end()) {
      return std::nullopt;
    }
    GemmHandles& handles = handles_of("fused");
    std::string absent = why_no_spans(handles.of_rank(0).plan());
    if (absent.empty()) {
      try {
        RecordedSpans recorded = record_spans(handles.recordable(resources_), resources_.ranks, machine_.gate());
        fused->spans = sum_up(recorded.trace, cell_.problem, handles.of_rank(0).plan());
        fused->spans->call_us = recorded.call_us;
        return std::move(recorded.trace);
      } catch (const DeviceError& error) {
        absent = error.what();
      }
    }
    observer_.note(fmt::format("{}: no spans: {}", cell_name(cell_), absent));
    return std::nullopt;
  }

  /// Of the fused operation, or of our GEMM where nothing is fused. What one more replay leaves behind is looked at, so
  /// that it is the timed graph that is verified. Rows with wrong results are taken out.
  bool verify(std::vector<GemmRow>& rows) {
    const std::string name = cell_.problem.operation == gemm::Operation::gemm ? "alone" : "fused";
    GemmHandles& handles = handles_of(name);
    poison_results(resources_, handles);
    double error = 0;
    for (const CapturedVariant& captured : captured_) {
      if (captured.name() == name) {
        static_cast<void>(captured.run_trial(resources_.ranks, machine_.gate()));
        error = largest_error(resources_, handles, operands_.set_of(captured.replays() - 1));
      }
    }
    const bool right = error <= most_roundings;
    observer_.note(fmt::format("{}: {}", cell_name(cell_), verdict_text(right, error)));
    set_largest_error(rows, name, error);
    if (!right) {
      std::erase_if(rows, [&](const GemmRow& row) { return row.times.variant == name; });
    }
    return right;
  }

  GemmHandles& handles_of(const std::string& name) {
    for (OwnVariant& own : own_) {
      if (own.name == name) {
        return *own.handles;
      }
    }
    throw std::logic_error("no variant " + name);
  }

  const GemmBenchOptions& options_;
  const GemmBenchObserver& observer_;
  Machine& machine_;
  const GemmCell& cell_;
  Operands operands_;
  CellResources resources_;
  std::vector<OwnVariant> own_;
  std::vector<CapturedVariant> captured_;
};

void run_cell(const GemmBenchOptions& options, const GemmBenchObserver& observer, Machine& machine,
              const GemmCell& cell, GemmBenchOutcome& outcome) {
  CellOutcome of_cell = CellRun(options, observer, machine, cell).run();
  outcome.wrong_cells += of_cell.right ? 0 : 1;
  if (of_cell.trace) {
    outcome.trace = std::move(of_cell.trace);
  }
  for (GemmRow& row : of_cell.rows) {
    observer.row(row);
    outcome.rows.push_back(std::move(row));
  }
}

}  // namespace

GemmBenchOutcome run_gemm_bench(const GemmBenchOptions& options, const GemmBenchObserver& observer) {
  Machine machine(options);
  GemmBenchOutcome outcome;
  outcome.cublas = machine.cublas_text();
  if (!machine.has_cublas()) {
    observer.note("no variant cublas: " + outcome.cublas);
  }
  run_cells(options.cells, observer, outcome,
            [&](const GemmCell& cell) { run_cell(options, observer, machine, cell, outcome); });
  return outcome;
}

}  // namespace xstage::bench
