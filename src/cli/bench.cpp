/// `xstage bench`, and its `gemm`: fused GEMMs against cuBLAS and against themselves without communication.

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "bench/gemm_bench.hpp"
#include "bench/result_file.hpp"
#include "cli/bench_options.hpp"
#include "cli/bench_run.hpp"
#include "cli/json_output.hpp"
#include "cli/quantities.hpp"
#include "gemm/layout.hpp"

namespace xstage::cli {

namespace {

struct GemmOptions : BenchOptions {
  std::string operations = "gemm,reduce_scatter,all_gather,all_reduce,all_to_all";
  std::string shapes = "table";
  std::string cublas;
  std::optional<std::string> plan;
  bool local_twin = false;
  bool spans = false;
};

std::string ratio_text(const bench::GemmRow& row) {
  if (!row.ratio) {
    return "";
  }
  return fmt::format("{} of {} [{}, {}]", fixed(row.ratio->ratio, 3), row.ratio_to, fixed(row.ratio->low, 3),
                     fixed(row.ratio->high, 3));
}

std::string heading(bool predicts) {
  return fmt::format("{:<20} {:>6} {:>6} {:>6} {:>5}  {:<10} {:>9}{} {:>8}  {}\n", "operation", "m", "n", "k", "ranks",
                     "variant", "us", predicts ? fmt::format(" {:>9}", "predicted") : "", "TFLOP/s",
                     "time against [95% interval]");
}

std::string line_of(const bench::GemmRow& row, bool predicts) {
  const gemm::Problem& problem = row.cell.problem;
  const std::string predicted = row.predicted_us ? fixed(*row.predicted_us, 1) : "";
  return fmt::format("{:<20} {:>6} {:>6} {:>6} {:>5}  {:<10} {:>9.1f}{} {:>8.1f}  {}\n",
                     gemm::operation_name(problem.operation), problem.m, problem.n, problem.k, row.cell.ranks,
                     row.times.variant, bench::microseconds(row), predicts ? fmt::format(" {:>9}", predicted) : "",
                     bench::tflops(row), ratio_text(row));
}

/// The row, and below it what its spans say.
std::string lines_of(const bench::GemmRow& row, bool predicts) {
  std::string lines = line_of(row, predicts);
  if (row.spans) {
    lines += fmt::format("  spans: {}\n", bench::comparison_text(*row.spans, row.predicted_spans));
  }
  return lines;
}

Json document(const NodeDescription& node, const bench::GemmBenchOptions& run, const bench::GemmBenchOutcome& outcome) {
  const std::optional<bench::PredictionBasis>& predictions = run.predictions;
  Json json = bench::result_document("gemm", node, run.devices);
  json["cublas"] = outcome.cublas;
  json["timing"] =
      "microseconds of one call in a CUDA graph of `replays` calls, maximum over ranks, which start together; trials "
      "of a cell's variants alternate, each after a rest of 15 ms; ratio is the median over rounds with its 95% "
      "sign-test interval";
  if (predictions) {
    json["platform"] = predictions->platform.node.name;
    json["prediction"] =
        "predicted_us: the Burst-Gap model on that platform, at the rate of the row alone; ceiling: no smaller ratio "
        "is possible, since computing takes what the faster of alone and cublas took and the bytes to peers drain at "
        "R";
  }
  if (run.plan) {
    json["plan_overrides"] = bench::plan_overrides_json(*run.plan);
  }
  if (run.spans) {
    json["spans"] =
        "of the last call in a graph of calls of the instrumented kernel, after the trials; call_us: one such call; "
        "stage_tile_us, store_tile_us: of tiles that go to peers";
  }
  json["rows"] = bench::rows_json(outcome.rows);
  return json;
}

ExitCode bench_gemm(Console& console, const GemmOptions& options) {
  const auto operations = parsed("--ops", [&] { return bench::parse_operations(options.operations); });
  const auto shapes = parsed("--shapes", [&] { return bench::parse_shapes(options.shapes); });
  bench::GemmBenchOptions run;
  if (options.plan) {
    run.plan = parsed("--plan", [&] { return bench::parse_gemm_plan(*options.plan); });
  }
  check_options(options);
  std::optional<Platform> platform = read_named_platform(options);
  const NodeDescription node = describe_machine(console, options);
  set_run(run, options, node);
  run.cells = bench::make_cells(operations, shapes, static_cast<int>(run.devices.size()));
  run.local_twin = options.local_twin;
  run.spans = options.spans || !options.trace.empty();
  run.cublas_path = options.cublas;
  run.predictions = prediction_basis(std::move(platform), node, run.devices);
  const bool predicts = run.predictions.has_value();
  Benchmark<bench::GemmBenchOutcome> benchmark;
  benchmark.measure = [&](const bench::GemmBenchObserver& observer) { return bench::run_gemm_bench(run, observer); };
  benchmark.heading = heading(predicts);
  benchmark.lines = [predicts](const bench::GemmRow& row) { return lines_of(row, predicts); };
  benchmark.document = [&](const bench::GemmBenchOutcome& outcome) { return document(node, run, outcome); };
  benchmark.why_no_trace = "no fused operation was recorded";
  return run_benchmark(console, options, benchmark);
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
  add_run_options(*verb, *options);
  verb->add_option("--cublas", options->cublas, "libcublas.so; default: where the dynamic linker finds it");
  verb->add_option("--platform", options->platform,
                   "platform profile: also what the model predicts for fused operations, and their ceiling");
  verb->add_option("--plan", options->plan, fmt::format(plan_help, "fused operations", bench::gemm_plan_fields()));
  verb->add_flag("--verify", options->verify, "compare results with sums in double; exit code 1 if they are wrong");
  verb->add_flag("--local-twin", options->local_twin, "also the fused operation with local memory in place of peers");
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
