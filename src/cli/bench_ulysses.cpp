/// `xstage bench ulysses`: a whole layer of sequence-parallel attention, and its computing alone.

#include <fmt/format.h>

#include <memory>
#include <string>

#include "bench/result_file.hpp"
#include "bench/ulysses_bench.hpp"
#include "cli/bench_options.hpp"
#include "cli/bench_run.hpp"
#include "cli/json_output.hpp"
#include "cli/quantities.hpp"

namespace xstage::cli {

namespace {

struct UlyssesOptions : BenchOptions {
  std::string shapes = "table";
  std::string variants = bench::all_ulysses_variants;
};

std::string ratio_text(const bench::UlyssesRow& row) {
  std::string text;
  if (row.ratio) {
    text = ratio_with_interval(*row.ratio);
  }
  if (row.flags_to_fused) {
    text += fmt::format("{}{} of fused", text.empty() ? "" : ", ", fixed(row.flags_to_fused->ratio, 3));
  }
  return text;
}

std::string heading(int ranks) {
  return fmt::format("{:<20} {:<17} {:>9} {:>8}  {}\n", fmt::format("tokens x heads, R={}", ranks), "variant", "us",
                     "TFLOP/s", "time against compute");
}

std::string line_of(const bench::UlyssesRow& row) {
  return fmt::format("{:<20} {:<17} {:>9.1f} {:>8.1f}  {}\n", bench::shape_text(row.cell), row.times.variant,
                     bench::microseconds(row), bench::tflops(row), ratio_text(row));
}

Json document(const NodeDescription& node, const bench::UlyssesBenchOptions& run,
              const bench::UlyssesBenchOutcome& outcome) {
  Json json = bench::result_document("ulysses", node, run.devices);
  json["timing"] =
      "microseconds of one call in a CUDA graph of `replays` calls, maximum over ranks, which start together; trials "
      "of a cell's variants alternate; one_shot_us: one call from rest, until results are complete on every rank";
  json["ratios"] =
      "of time, medians over rounds with their 95% sign-test intervals: `ratio` to compute, `flags_to_fused`";
  json["rows"] = bench::rows_json(outcome.rows);
  return json;
}

ExitCode bench_ulysses(Console& console, const UlyssesOptions& options) {
  const auto shapes = parsed("--shapes", [&] { return bench::parse_ulysses_shapes(options.shapes); });
  // Whatever the number of ranks will be: names are checked before any GPU is asked for.
  static_cast<void>(parsed("--variants", [&] { return bench::parse_ulysses_variants(options.variants, 2); }));
  check_options(options);
  const NodeDescription node = describe_machine(console, options);
  bench::UlyssesBenchOptions run;
  set_run(run, options, node);
  const int ranks = static_cast<int>(run.devices.size());
  run.variants = parsed("--variants", [&] { return bench::parse_ulysses_variants(options.variants, ranks); });
  run.cells = bench::make_ulysses_cells(shapes, ranks);
  Benchmark<bench::UlyssesBenchOutcome> benchmark;
  benchmark.measure = [&](const bench::UlyssesBenchObserver& observer) {
    return bench::run_ulysses_bench(run, observer);
  };
  benchmark.heading = heading(ranks);
  benchmark.lines = line_of;
  benchmark.document = [&](const bench::UlyssesBenchOutcome& outcome) { return document(node, run, outcome); };
  return run_benchmark(console, options, benchmark);
}

}  // namespace

void add_bench_ulysses(CLI::App& bench, Invocation& invocation) {
  auto options = std::make_shared<UlyssesOptions>();
  CLI::App* verb = bench.add_subcommand("ulysses", "a layer of sequence-parallel attention, and its computing alone");
  verb->add_option("--shapes", options->shapes,
                   "table, or TOKENSxHEADS,... with heads of 128 of all ranks together; the hidden size is theirs")
      ->capture_default_str();
  verb->add_option(
          "--variants", options->variants,
          fmt::format("comma-separated, of {}; one rank has neither fused nor flags", bench::all_ulysses_variants))
      ->capture_default_str();
  add_run_options(*verb, *options);
  verb->add_flag("--verify", options->verify,
                 "compare samples with sums in double, and whole results with those of a call that waits between "
                 "kernels; exit code 1 if they are wrong");
  finish_verb(*verb, options, invocation, bench_ulysses);
}

}  // namespace xstage::cli
