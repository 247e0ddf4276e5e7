// The run: cell by cell, each with its operands and variants made, timed, verified and given back.

#include "bench/attention_bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "bench/attention_span_comparison.hpp"
#include "bench/cuda/attention_variants.hpp"
#include "bench/cuda/attention_verify.hpp"
#include "bench/cuda/cell_run.hpp"
#include "bench/cuda/record_spans.hpp"
#include "xstage/error.hpp"

namespace xstage::bench {

namespace {

/// What lives as long as the run.
struct Machine {
  explicit Machine(const std::vector<int>& devices) : ranks(devices), random(devices, 1.0, 1) {}
  Ranks ranks;
  StartGate gate;
  RandomBlock random;
};

class CellRun {
 public:
  CellRun(const AttentionBenchOptions& options, const AttentionBenchObserver& observer, Machine& machine,
          const AttentionCell& cell)
      : options_(options),
        observer_(observer),
        machine_(machine),
        cell_(cell),
        operands_(machine.ranks, cell, machine.random),
        resources_{cell_, machine.ranks, operands_, options.plan},
        variants_(resources_, options.variants) {}

  /// None if it was stopped.
  std::vector<AttentionRow> run() {
    for (const std::string& name : options_.variants) {
      captured_.emplace_back(machine_.ranks, machine_.gate, variants_.variant(name));
    }
    std::vector<AttentionRow> rows =
        time_variants<AttentionRow>(machine_.ranks, machine_.gate, captured_, options_.trials, observer_);
    for (AttentionRow& row : rows) {
      row.cell = cell_;
      row.l2 = variants_.l2_policy(row.times.variant);
      row.plan = variants_.plan_of(row.times.variant);
      row.exchange_plan = variants_.exchange_plan_of(row.times.variant);
    }
    add_ratios(rows);
    if (options_.predictions) {
      add_predictions(rows, *options_.predictions);
    }
    if (options_.spans) {
      add_spans(rows);
    }
    return rows;
  }

  /// What one more trial of each variant leaves behind is looked at, so that it is the timed graph that is verified.
  /// Rows with wrong results are taken out. False if there is one.
  bool verify(std::vector<AttentionRow>& rows) {
    AttentionReferences references(resources_);
    for (const CapturedVariant& captured : captured_) {
      if (!AttentionVariants::has_verdict(captured.name())) {
        continue;
      }
      variants_.poison_results(captured.name());
      static_cast<void>(captured.run_trial(machine_.ranks, machine_.gate));
      const int set = operands_.set_of(captured.replays() - 1);
      note_error(rows, captured.name(), references.largest_error(variants_, captured.name(), set));
    }
    return std::erase_if(rows, [](const AttentionRow& row) { return row.largest_error > most_roundings; }) == 0;
  }

  /// Of the variant `fused`, if it has been recorded.
  [[nodiscard]] std::optional<trace::Trace> take_trace() { return std::move(trace_); }

 private:
  /// To the rows that have them. Without them a row is still a measurement.
  void add_spans(std::vector<AttentionRow>& rows) {
    for (AttentionRow& row : rows) {
      if (has_spans(row.times.variant)) {
        note_failure(row.times.variant + ": no spans", [&] { record(row); });
      }
    }
    add_twin_comparison(rows);
    if (options_.predictions) {
      note_failure("no audit of the spans", [&] { add_verdict(rows, *options_.predictions); });
    }
  }

  template <typename Action>
  void note_failure(const std::string& what, const Action& action) const {
    const auto note = [&](const char* reason) {
      observer_.note(fmt::format("{} {}: {}", cell_name(cell_), what, reason));
    };
    try {
      action();
    } catch (const DeviceError& error) {
      note(error.what());
    } catch (const InputError& error) {
      note(error.what());
    }
  }

  void record(AttentionRow& row) {
    const std::string& name = row.times.variant;
    const RecordedSpans recorded = record_spans(variants_.recordable(name), machine_.ranks, machine_.gate);
    trace::Trace trace = last_call(recorded.trace);
    row.spans = sum_up(trace, cell_.problem, *row.plan);
    row.spans->call_us = recorded.call_us;
    if (name == "fused") {
      trace_ = std::move(trace);
    }
  }

  void note_error(std::vector<AttentionRow>& rows, const std::string& name, double error) const {
    set_largest_error(rows, name, error);
    observer_.note(fmt::format("{} {}: {}", cell_name(cell_), name, verdict_text(error <= most_roundings, error)));
  }

  const AttentionBenchOptions& options_;
  const AttentionBenchObserver& observer_;
  Machine& machine_;
  const AttentionCell& cell_;
  AttentionOperands operands_;
  AttentionResources resources_;
  AttentionVariants variants_;
  std::vector<CapturedVariant> captured_;
  std::optional<trace::Trace> trace_;
};

}  // namespace

AttentionBenchOutcome run_attention_bench(const AttentionBenchOptions& options,
                                          const AttentionBenchObserver& observer) {
  Machine machine(options.devices);
  AttentionBenchOutcome outcome;
  run_cells(options.cells, observer, outcome, [&](const AttentionCell& cell) {
    CellRun run(options, observer, machine, cell);
    take_rows(run, options.verify, observer, outcome);
    if (auto trace = run.take_trace()) {
      outcome.trace = std::move(trace);
    }
  });
  return outcome;
}

}  // namespace xstage::bench
