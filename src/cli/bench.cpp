/// `xstage bench`, and its `gemm`: fused GEMMs against cuBLAS and against themselves without communication.

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "cli/bench_options.hpp"
#include "cli/bench_run.hpp"
#include "ops/gemm/bench/gemm_bench.hpp"

namespace xstage::cli {

namespace {

constexpr std::span<const bench::GemmVariant> gemm_table(bench::gemm_variants);

struct GemmOptions : BenchOptions {
  std::string operations = "gemm,reduce_scatter,all_gather,all_reduce,all_to_all";
  std::string shapes = "table";
  std::string variants;
  std::string cublas;
  std::optional<std::string> plan;
};

Json header_of(const bench::GemmBenchOptions& run) {
  Json header{{"ratios",
               "of time, medians over rounds with their 95% sign-test intervals: `ratio`, of alone to cublas, of fused "
               "operations to the faster of both"}};
  if (run.predictions) {
    header["platform"] = run.predictions->platform.node.name;
    header["prediction"] = fmt::format(
        "predicted_us: the Burst-Gap model on that platform, at the rate of the row alone; {}computing: the faster of "
        "alone and cublas; communicating: the bytes to peers at R",
        bench::ceiling_text);
  }
  if (run.plan) {
    header["plan_overrides"] = bench::plan_overrides_json(*run.plan);
  }
  if (run.spans) {
    header["spans"] =
        "of the last call in a graph of calls of the instrumented kernel, after the trials; call_us: one such call; "
        "stage_tile_us, store_tile_us: of tiles that go to peers";
  }
  return header;
}

ExitCode bench_gemm(Console& console, const GemmOptions& options) {
  const auto operations = parsed("--ops", [&] { return bench::parse_operations(options.operations); });
  const auto shapes = parsed("--shapes", [&] { return bench::parse_shapes(options.shapes); });
  const auto select = [&](int ranks) {
    return parsed("--variants", [&] { return bench::select_variants(gemm_table, options.variants, ranks); });
  };
  // Whatever the number of ranks will be: names are checked before any GPU is asked for.
  static_cast<void>(select(2));
  bench::GemmBenchOptions run;
  if (options.plan) {
    run.plan = parsed("--plan", [&] { return bench::parse_gemm_plan(*options.plan); });
  }
  check_options(options);
  std::optional<Platform> platform = read_named_platform(options);
  const BenchTarget target = find_target(console, options);
  set_run(run, options, target);
  run.variants = select(target.ranks());
  run.cells = bench::make_cells(operations, shapes, target.ranks());
  run.cublas_path = options.cublas;
  run.predictions = prediction_basis(std::move(platform), target);
  Benchmark benchmark;
  benchmark.name = "gemm";
  std::transform(run.cells.begin(), run.cells.end(), std::back_inserter(benchmark.cells), [&](const auto& cell) {
    return bench::head_of(cell, run.variants, target.multiprocessors, run.plan);
  });
  benchmark.run = run;
  benchmark.measure = [&](const auto& heads, const bench::Observer& observer) {
    return bench::run_gemm_bench(run, heads, observer);
  };
  benchmark.header = header_of(run);
  benchmark.why_no_trace = "no fused operation was recorded";
  return run_benchmark(console, options, target, benchmark);
}

void add_gemm(CLI::App& bench, Invocation& invocation) {
  auto options = std::make_shared<GemmOptions>();
  CLI::App* verb = bench.add_subcommand("gemm", "GEMM alone and fused with collectives");
  verb->add_option("--ops", options->operations,
                   "comma-separated: gemm,reduce_scatter,all_gather,all_reduce,all_to_all")
      ->capture_default_str();
  verb->add_option("--shapes", options->shapes,
                   "table, small (its first two), decode, or MxNxK,... of the whole problem")
      ->capture_default_str();
  add_variants(*verb, options->variants, gemm_table);
  add_run_options(*verb, *options);
  verb->add_option("--cublas", options->cublas, "libcublas.so; default: where the dynamic linker finds it");
  verb->add_option("--platform", options->platform,
                   "platform profile: also what the model predicts for fused operations, and their ceiling");
  verb->add_option("--plan", options->plan, fmt::format(plan_help, "fused operations", bench::gemm_plan_fields()));
  verb->add_flag("--verify", options->verify, "compare results with sums in double; exit code 1 if they are wrong");
  verb->add_flag("--spans", options->spans,
                 "also what main loops and stores inside the fused kernel take, by calls of an instrumented one");
  verb->add_option("--trace", options->trace, trace_help);
  finish_verb(*verb, options, invocation, bench_gemm);
}

}  // namespace

void add_bench(CLI::App& tool, Invocation& invocation) {
  CLI::App* verb =
      tool.add_subcommand("bench", "Measure this library's kernels against others (gemm, attention, ulysses, moe)");
  verb->require_subcommand(1);
  add_gemm(*verb, invocation);
  add_bench_attention(*verb, invocation);
  add_bench_ulysses(*verb, invocation);
  add_bench_moe(*verb, invocation);
}

}  // namespace xstage::cli
