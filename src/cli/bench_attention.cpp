/// `xstage bench attention`: attention alone, with an all-to-all after it, and fused with it.

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/attention_bench.hpp"
#include "bench/attention_bound.hpp"
#include "bench/attention_span_comparison.hpp"
#include "bench/result_file.hpp"
#include "cli/bench_options.hpp"
#include "cli/bench_run.hpp"
#include "cli/json_output.hpp"
#include "cli/quantities.hpp"

namespace xstage::cli {

namespace {

struct AttentionOptions : BenchOptions {
  std::string shapes = "table";
  std::string variants = bench::all_attention_variants;
  std::optional<std::string> plan;
  bool spans = false;
};

/// A trace implies spans.
bool records(const AttentionOptions& options) { return options.spans || !options.trace.empty(); }

std::string ratio_text(const bench::AttentionRow& row) {
  if (!row.ratio) {
    return "";
  }
  std::string text = ratio_with_interval(*row.ratio);
  if (row.hiding) {
    text += fmt::format(" hides {}", percent(row.hiding->ratio));
  }
  return text;
}

std::string heading(int ranks, bool predicts) {
  return fmt::format("{:<24} {:<10} {:>9}{} {:>8}  {}\n", fmt::format("sequence x heads, R={}", ranks), "variant", "us",
                     predicts ? fmt::format(" {:>9}", "predicted") : "", "TFLOP/s", "time against attention");
}

std::string line_of(const bench::AttentionRow& row, bool predicts) {
  const auto rate = bench::tflops(row);
  const std::string predicted = row.prediction ? fixed(row.prediction->call_us, 1) : "";
  return fmt::format("{:<24} {:<10} {:>9.1f}{} {:>8}  {}\n", bench::shape_text(row.cell), row.times.variant,
                     bench::microseconds(row), predicts ? fmt::format(" {:>9}", predicted) : "",
                     rate ? fixed(*rate, 1) : "", ratio_text(row));
}

/// The row, and below it what its spans say.
std::string lines_of(const bench::AttentionRow& row, bool predicts) {
  std::string lines = line_of(row, predicts);
  if (row.spans) {
    lines += fmt::format("  spans: {}\n", bench::comparison_text(*row.spans, row.prediction));
  }
  return lines;
}

Json document(const NodeDescription& node, const bench::AttentionBenchOptions& run,
              const bench::AttentionBenchOutcome& outcome) {
  Json json = bench::result_document("attention", node, run.devices);
  json["timing"] =
      "microseconds of one call in a CUDA graph of `replays` calls, maximum over ranks, which start together; trials "
      "of a cell's variants alternate; one_shot_us: one call from rest, until results are complete on every rank";
  json["ratios"] =
      "of time, medians over rounds with their 95% sign-test intervals: `ratio` to attention, `serial_ratio`, "
      "`twin_ratio`; hiding: 1 - (fused - attention) / (serial - attention); ceiling: no smaller `ratio` is possible "
      "where computing and communicating take what attention and all_to_all take alone";
  if (run.predictions) {
    json["platform"] = run.predictions->platform.node.name;
    json["predictions"] =
        "predicted_us: the Burst-Gap model on that platform, at the rate of the row attention; prediction: its parts; "
        "coupled_us: the same if stores were waited for before the next tile; stall_us: where a wave stores most; "
        "tail_us: stores after the last main loop, if CTAs end together; shortest_hidden_keys: from so many keys on a "
        "main loop hides what its wave stores";
  }
  if (run.spans) {
    json["spans"] =
        "of the last call in a graph of calls of the instrumented kernel, after the trials; call_us: one such call; "
        "stage_tile_us, store_tile_us: of 64 rows that go to peers (of local_twin: that would), stage_own_us, "
        "store_own_us: that stay, stage_all_us, store_all_us: of causal tiles; wave: what CTAs store to peers after "
        "their n-th tile where that is most; audit: of that wave on the platform";
  }
  if (run.plan) {
    json["plan_overrides"] = bench::plan_overrides_json(*run.plan);
  }
  if (run.predictions) {
    json["hiding_bounds"] = bench::bounds_json(bench::hiding_bounds(outcome.rows));
  }
  json["rows"] = bench::rows_json(outcome.rows);
  return json;
}

std::string bounds_text(const bench::AttentionBenchOutcome& outcome) {
  std::string text;
  for (const bench::HidingBound& bound : bench::hiding_bounds(outcome.rows)) {
    text += bench::bound_text(bound) + '\n';
  }
  return text;
}

/// Variants that these ranks have.
std::vector<std::string> choose_variants(const AttentionOptions& options, int ranks) {
  std::vector<std::string> variants =
      parsed("--variants", [&] { return bench::parse_attention_variants(options.variants, ranks); });
  if (records(options)) {
    const std::string absent = bench::why_no_spans(variants, !options.trace.empty());
    if (!absent.empty()) {
      throw UsageError(fmt::format("{}: {}", options.trace.empty() ? "--spans" : "--trace", absent));
    }
  }
  return variants;
}

ExitCode bench_attention(Console& console, const AttentionOptions& options) {
  const auto shapes = parsed("--shapes", [&] { return bench::parse_attention_shapes(options.shapes); });
  // Whatever the number of ranks will be: names are checked before any GPU is asked for.
  static_cast<void>(choose_variants(options, 2));
  bench::AttentionBenchOptions run;
  if (options.plan) {
    run.plan = parsed("--plan", [&] { return bench::parse_attention_plan(*options.plan); });
  }
  check_options(options);
  std::optional<Platform> platform = read_named_platform(options);
  const NodeDescription node = describe_machine(console, options);
  set_run(run, options, node);
  const int ranks = static_cast<int>(run.devices.size());
  run.variants = choose_variants(options, ranks);
  run.cells = bench::make_attention_cells(shapes, ranks);
  run.spans = records(options);
  run.predictions = prediction_basis(std::move(platform), node, run.devices);
  const bool predicts = run.predictions.has_value();
  Benchmark<bench::AttentionBenchOutcome> benchmark;
  benchmark.measure = [&](const bench::AttentionBenchObserver& observer) {
    return bench::run_attention_bench(run, observer);
  };
  benchmark.heading = heading(ranks, predicts);
  benchmark.lines = [predicts](const bench::AttentionRow& row) { return lines_of(row, predicts); };
  benchmark.closing = bounds_text;
  benchmark.document = [&](const bench::AttentionBenchOutcome& outcome) { return document(node, run, outcome); };
  benchmark.why_no_trace = "no fused attention was recorded";
  return run_benchmark(console, options, benchmark);
}

}  // namespace

void add_bench_attention(CLI::App& bench, Invocation& invocation) {
  auto options = std::make_shared<AttentionOptions>();
  CLI::App* verb = bench.add_subcommand("attention", "attention alone, before an all-to-all, and fused with it");
  verb->add_option("--shapes", options->shapes,
                   "table, its parts full and extra, or SEQUENCExHEADS[:d64][:causal][:kvHEADS],... with heads of all "
                   "ranks together")
      ->capture_default_str();
  verb->add_option("--variants", options->variants,
                   fmt::format("comma-separated, of {}; one rank has attention only", bench::all_attention_variants))
      ->capture_default_str();
  add_run_options(*verb, *options);
  verb->add_option("--platform", options->platform,
                   "platform profile: also what the model predicts for the variant fused");
  verb->add_option("--plan", options->plan, fmt::format(plan_help, "attention", bench::attention_plan_fields()));
  verb->add_flag("--verify", options->verify,
                 "compare sampled rows with an attention in double; exit code 1 if they are wrong");
  verb->add_flag(
      "--spans", options->spans,
      "also what main loops, staging and stores inside the kernels of fused and local_twin take, by calls of "
      "instrumented ones");
  verb->add_option("--trace", options->trace, trace_help);
  finish_verb(*verb, options, invocation, bench_attention);
}

}  // namespace xstage::cli
