/// `xstage bench attention`: attention alone, with an all-to-all after it, and fused with it.

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cli/bench_options.hpp"
#include "cli/bench_run.hpp"
#include "ops/attention/bench/attention_bench.hpp"
#include "ops/attention/bench/bound.hpp"

namespace xstage::cli {

namespace {

constexpr std::span<const bench::AttentionVariant> attention_table(bench::attention_variants);

struct AttentionOptions : BenchOptions {
  std::string shapes = "table";
  std::string variants;
  std::optional<std::string> plan;
};

Json header_of(const bench::AttentionBenchOptions& run) {
  Json header{
      {"ratios", fmt::format("of time, medians over rounds with their 95% sign-test intervals: `ratio` to attention, "
                             "`serial_ratio`, `twin_ratio`; hiding: 1 - (fused - attention) / (serial - attention); "
                             "{}computing: attention; communicating: all_to_all",
                             bench::ceiling_text)}};
  if (run.predictions) {
    header["platform"] = run.predictions->platform.node.name;
    header["predictions"] =
        "predicted_us: the Burst-Gap model on that platform, at the rate of the row attention; prediction: its parts; "
        "coupled_us: the same if stores were waited for before the next tile; stall_us: where a wave stores most; "
        "tail_us: stores after the last main loop, if CTAs end together; shortest_hidden_keys: from so many keys on a "
        "main loop hides what its wave stores";
  }
  if (run.spans) {
    header["spans"] =
        "of the last call in a graph of calls of the instrumented kernel, after the trials; call_us: one such call; "
        "stage_tile_us, store_tile_us: of 64 rows that go to peers (of local_twin: that would), stage_own_us, "
        "store_own_us: that stay, stage_all_us, store_all_us: of causal tiles; wave: what CTAs store to peers after "
        "their n-th tile where that is most; audit: of that wave on the platform";
  }
  if (run.plan) {
    header["plan_overrides"] = bench::plan_overrides_json(*run.plan);
  }
  return header;
}

std::string bounds_text(const bench::Outcome& outcome) {
  std::string text;
  for (const bench::HidingBound& bound : bench::hiding_bounds(outcome.rows)) {
    text += bench::bound_text(bound) + '\n';
  }
  return text;
}

/// Variants that these ranks have.
std::vector<bench::AttentionVariant> choose_variants(const AttentionOptions& options, int ranks) {
  auto variants =
      parsed("--variants", [&] { return bench::select_variants(attention_table, options.variants, ranks); });
  if (options.spans || !options.trace.empty()) {  // a trace implies spans
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
  const BenchTarget target = find_target(console, options);
  set_run(run, options, target);
  run.variants = choose_variants(options, target.ranks());
  run.cells = bench::make_attention_cells(shapes, target.ranks());
  run.predictions = prediction_basis(std::move(platform), target);
  Benchmark benchmark;
  benchmark.name = "attention";
  std::transform(run.cells.begin(), run.cells.end(), std::back_inserter(benchmark.cells), [&](const auto& cell) {
    return bench::head_of(cell, run.variants, target.multiprocessors, run.plan);
  });
  benchmark.run = run;
  benchmark.measure = [&](const auto& heads, const bench::Observer& observer) {
    return bench::run_attention_bench(run, heads, observer);
  };
  benchmark.header = header_of(run);
  if (run.predictions) {
    benchmark.add_findings = [](Json& document, const bench::Outcome& outcome) {
      document["hiding_bounds"] = bench::bounds_json(bench::hiding_bounds(outcome.rows));
    };
  }
  benchmark.closing = bounds_text;
  benchmark.why_no_trace = "no fused attention was recorded";
  return run_benchmark(console, options, target, benchmark);
}

}  // namespace

void add_bench_attention(CLI::App& bench, Invocation& invocation) {
  auto options = std::make_shared<AttentionOptions>();
  CLI::App* verb = bench.add_subcommand("attention", "attention alone, before an all-to-all, and fused with it");
  verb->add_option("--shapes", options->shapes,
                   "table, its parts full and extra, or SEQUENCExHEADS[:d64][:causal][:kvHEADS],... with heads of all "
                   "ranks together")
      ->capture_default_str();
  add_variants(*verb, options->variants, attention_table);
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
