// The cells of `xstage bench attention` with all that they need on the GPUs.

#include "ops/attention/bench/attention_bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "bench/cuda/cell_run.hpp"
#include "bench/cuda/record_spans.hpp"
#include "ops/attention/bench/cuda/variants.hpp"
#include "ops/attention/bench/cuda/verify.hpp"
#include "ops/attention/bench/prediction.hpp"
#include "ops/attention/bench/span_comparison.hpp"
#include "xstage/error.hpp"

namespace xstage::bench {

namespace {

class AttentionCellBench final : public CellBench {
 public:
  AttentionCellBench(const AttentionBenchOptions& options, const Ranks& ranks, const AttentionCell& cell)
      : options_(options),
        cell_(cell),
        operands_(ranks, cell),
        resources_{cell_, ranks, operands_, options.plan},
        variants_(resources_, options.variants),
        references_(resources_) {}

  [[nodiscard]] const Ranks& ranks() const override { return resources_.ranks; }

  [[nodiscard]] std::vector<Variant> variants() override {
    std::vector<Variant> variants;
    for (const AttentionVariant& entry : options_.variants) {
      variants.push_back(variants_.variant(entry));
      if (entry.has_verdict) {
        variants.back().poison = [this, &entry] { variants_.poison_results(entry); };
        variants.back().verify = [this, &entry](int call) {
          Verification verdict;
          verdict.error = references_.largest_error(variants_, entry, operands_.set_of(call));
          return verdict;
        };
      }
    }
    return variants;
  }

  void add_figures(std::vector<Row>& rows) override {
    bench::add_figures(cell_, rows);
    const AttentionVariant* alone = entry_of("attention");
    const AttentionVariant* fused = entry_of("fused");
    if (options_.predictions && alone != nullptr && fused != nullptr) {
      prediction_ =
          add_prediction(cell_, variants_.plan_of(*alone), variants_.plan_of(*fused), rows, *options_.predictions);
    }
  }

  std::optional<trace::Trace> add_spans(std::vector<Row>& rows, StartGate& gate,
                                        const std::function<void(const std::string&)>& note) override {
    std::map<std::string, AttentionSpans> spans;  // by variant
    std::optional<trace::Trace> trace;
    for (const AttentionVariant& entry : options_.variants) {
      if (entry.recorded) {
        unless_it_fails(note, fmt::format("{}: no spans", entry.name), [&] {
          RecordedCall recorded = record(entry, gate);
          spans.emplace(entry.name, recorded.spans);
          if (entry.name == "fused") {
            trace = std::move(recorded.trace);
          }
        });
      }
    }
    compare(spans, note);
    for (const auto& [name, of_variant] : spans) {
      Row& row = *find_variant(rows, name);
      const auto prediction = name == "fused" ? prediction_ : std::nullopt;
      row.figures["spans"] = spans_json(of_variant, prediction);
      row.remark = "spans: " + comparison_text(of_variant, prediction);
    }
    return trace;
  }

 private:
  struct RecordedCall {
    AttentionSpans spans;
    trace::Trace trace;
  };

  [[nodiscard]] const AttentionVariant* entry_of(std::string_view name) const {
    const auto found = std::find_if(options_.variants.begin(), options_.variants.end(),
                                    [&](const AttentionVariant& entry) { return entry.name == name; });
    return found == options_.variants.end() ? nullptr : &*found;
  }

  RecordedCall record(const AttentionVariant& entry, StartGate& gate) {
    const RecordedSpans recorded = record_spans(variants_.recordable(entry), resources_.ranks, gate);
    RecordedCall call;
    call.trace = last_call(recorded.trace);
    call.spans = sum_up(call.trace, cell_.problem, variants_.plan_of(entry));
    call.spans.call_us = recorded.call_us;
    return call;
  }

  /// The spans of `fused` with those of its twin and with the platform.
  void compare(std::map<std::string, AttentionSpans>& spans, const std::function<void(const std::string&)>& note) {
    const auto fused = spans.find("fused");
    if (fused == spans.end()) {
      return;
    }
    if (const auto twin = spans.find("local_twin"); twin != spans.end()) {
      add_twin_comparison(fused->second, twin->second);
    }
    if (options_.predictions) {
      unless_it_fails(note, "no audit of the spans", [&] {
        add_verdict(fused->second, variants_.plan_of(*entry_of("fused")).store_path, *options_.predictions);
      });
    }
  }

  template <typename Action>
  void unless_it_fails(const std::function<void(const std::string&)>& note, const std::string& what,
                       const Action& action) const {
    const auto failed = [&](const char* reason) { note(fmt::format("{} {}: {}", cell_name(cell_), what, reason)); };
    try {
      action();
    } catch (const DeviceError& error) {
      failed(error.what());
    } catch (const InputError& error) {
      failed(error.what());
    }
  }

  const AttentionBenchOptions& options_;
  const AttentionCell& cell_;
  AttentionOperands operands_;
  AttentionResources resources_;
  AttentionVariants variants_;
  AttentionReferences references_;
  std::optional<AttentionPrediction> prediction_;
};

}  // namespace

Outcome run_attention_bench(const AttentionBenchOptions& options, const std::vector<CellHead>& heads,
                            const Observer& observer) {
  const Ranks ranks(options.devices);
  StartGate gate;
  Outcome outcome;
  run_cells(heads, observer, outcome, [&](std::size_t index) {
    AttentionCellBench cell(options, ranks, options.cells[index]);
    measure_cell(cell, heads[index], options, gate, observer, outcome);
  });
  return outcome;
}

}  // namespace xstage::bench
