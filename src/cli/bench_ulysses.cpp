/// `xstage bench ulysses`: a whole layer of sequence-parallel attention, and its computing alone.

#include <algorithm>
#include <iterator>
#include <memory>
#include <span>
#include <string>

#include "cli/bench_options.hpp"
#include "cli/bench_run.hpp"
#include "ops/ulysses/bench/ulysses_bench.hpp"

namespace xstage::cli {

namespace {

constexpr std::span<const bench::UlyssesVariant> ulysses_table(bench::ulysses_variants);

struct UlyssesOptions : BenchOptions {
  std::string shapes = "table";
  std::string variants;
};

ExitCode bench_ulysses(Console& console, const UlyssesOptions& options) {
  const auto shapes = parsed("--shapes", [&] { return bench::parse_ulysses_shapes(options.shapes); });
  const auto select = [&](int ranks) {
    return parsed("--variants", [&] { return bench::select_variants(ulysses_table, options.variants, ranks); });
  };
  // Whatever the number of ranks will be: names are checked before any GPU is asked for.
  static_cast<void>(select(2));
  check_options(options);
  const BenchTarget target = find_target(console, options);
  bench::UlyssesBenchOptions run;
  set_run(run, options, target);
  run.variants = select(target.ranks());
  run.cells = bench::make_ulysses_cells(shapes, target.ranks());
  Benchmark benchmark;
  benchmark.name = "ulysses";
  std::transform(run.cells.begin(), run.cells.end(), std::back_inserter(benchmark.cells),
                 [&](const auto& cell) { return bench::head_of(cell, run.variants, target.multiprocessors); });
  benchmark.run = run;
  benchmark.measure = [&](const auto& heads, const bench::Observer& observer) {
    return bench::run_ulysses_bench(run, heads, observer);
  };
  benchmark.header["ratios"] =
      "of time, medians over rounds with their 95% sign-test intervals: `ratio` to compute, `flags_to_fused`";
  return run_benchmark(console, options, target, benchmark);
}

}  // namespace

void add_bench_ulysses(CLI::App& bench, Invocation& invocation) {
  auto options = std::make_shared<UlyssesOptions>();
  CLI::App* verb = bench.add_subcommand("ulysses", "a layer of sequence-parallel attention, and its computing alone");
  verb->add_option("--shapes", options->shapes,
                   "table, or TOKENSxHEADS,... with heads of 128 of all ranks together; the hidden size is theirs")
      ->capture_default_str();
  add_variants(*verb, options->variants, ulysses_table);
  add_run_options(*verb, *options);
  verb->add_flag("--verify", options->verify,
                 "compare samples with sums in double, and whole results with those of a call that waits between "
                 "kernels; exit code 1 if they are wrong");
  finish_verb(*verb, options, invocation, bench_ulysses);
}

}  // namespace xstage::cli
