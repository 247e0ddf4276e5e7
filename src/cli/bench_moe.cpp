/// `xstage bench moe`: a mixture-of-experts layer, and the kernels that make it, each alone.

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cli/bench_options.hpp"
#include "cli/bench_run.hpp"
#include "cli/output_paths.hpp"
#include "ops/moe/bench/moe_bench.hpp"
#include "xstage/cuda_node.hpp"
#include "xstage/files.hpp"

namespace xstage::cli {

namespace {

constexpr std::span<const bench::MoeVariant> moe_table(bench::moe_variants);

struct MoeOptions : BenchOptions {
  std::string shapes = "all";
  std::string tokens = "4096,8192";
  std::string routings = "balanced,skewed";
  std::string remote_shares = "natural";
  std::string variants;
  std::string routing_file;
};

Json header_of(const bench::MoeBenchOptions& run) {
  Json header{
      {"rates",
       "tflops: of the rank with most rows; remote_bytes, gb_per_s: rows that leave the rank with most of them, "
       "or of a local twin would"},
      {"ratios", fmt::format("of time, medians over rounds with their 95% sign-test intervals: `ratio` to linear1 + "
                             "linear2, `parts_ratio` to dispatch + linear1 + linear2 + combine, of `unfused_rows` + "
                             "combine_rows; {}computing: linear1 + linear2; communicating: dispatch and that combine",
                             bench::ceiling_text)}};
  if (run.drain_gb_per_s) {
    header["drain_gb_per_s"] = *run.drain_gb_per_s;
  }
  return header;
}

bench::MoeChoice read_choice(const MoeOptions& options) {
  bench::MoeChoice choice;
  choice.shapes = parsed("--shapes", [&] { return bench::parse_moe_shapes(options.shapes); });
  choice.tokens = parsed("--tokens", [&] { return bench::parse_moe_tokens(options.tokens); });
  choice.skews = parsed("--routing", [&] { return bench::parse_moe_routings(options.routings); });
  choice.remote_shares = parsed("--remote-share", [&] { return bench::parse_remote_shares(options.remote_shares); });
  return choice;
}

/// R of rows that leave by bulk stores, as dispatch sends them.
double drain_of(const std::string& platform) {
  const Estimate drain = path_profile(read_platform(platform), StorePath::bulk).drain_gb_per_s;
  if (!drain.value) {
    throw InputError(fmt::format("{}: the drain rate of bulk stores is not known: {}", platform, drain.reason));
  }
  return *drain.value;
}

/// Nothing is measured, and no GPU is needed if the ranks are named.
ExitCode write_routings(Console& console, const MoeOptions& options, const bench::MoeChoice& choice) {
  require_different_files({options.platform}, {options.output, options.routing_file});
  refuse_standard_output("--write-routing", options.routing_file);
  const auto ranks =
      options.devices.empty() ? choose_devices({}, describe_cuda_devices()).size() : options.devices.size();
  const std::vector<bench::MoeCell> cells = bench::make_moe_cells(choice, static_cast<int>(ranks));
  check_writable(options.routing_file);
  write_text(options.routing_file, bench::routings_file(cells));
  console.out << fmt::format("Wrote {} ({} routings of {} ranks)\n", options.routing_file, cells.size(), ranks);
  return ExitCode::success;
}

ExitCode bench_moe(Console& console, const MoeOptions& options) {
  const bench::MoeChoice choice = read_choice(options);
  const auto select = [&](int ranks) {
    return parsed("--variants", [&] { return bench::select_variants(moe_table, options.variants, ranks); });
  };
  // Whatever the number of ranks will be: names are checked before any GPU is asked for.
  static_cast<void>(select(2));
  check_options(options);
  if (!options.routing_file.empty()) {
    return write_routings(console, options, choice);
  }
  bench::MoeBenchOptions run;
  if (!options.platform.empty() && !options.list) {
    run.drain_gb_per_s = drain_of(options.platform);
  }
  const BenchTarget target = find_target(console, options);
  set_run(run, options, target);
  run.variants = select(target.ranks());
  run.cells = bench::make_moe_cells(choice, target.ranks());
  Benchmark benchmark;
  benchmark.name = "moe";
  std::transform(run.cells.begin(), run.cells.end(), std::back_inserter(benchmark.cells),
                 [&](const auto& cell) { return bench::head_of(cell, run.variants, target.multiprocessors); });
  benchmark.run = run;
  benchmark.measure = [&](const auto& heads, const bench::Observer& observer) {
    return bench::run_moe_bench(run, heads, observer);
  };
  benchmark.header = header_of(run);
  return run_benchmark(console, options, target, benchmark);
}

}  // namespace

void add_bench_moe(CLI::App& bench, Invocation& invocation) {
  auto options = std::make_shared<MoeOptions>();
  CLI::App* verb = bench.add_subcommand("moe", "a mixture-of-experts layer, and the kernels that make it, each alone");
  verb->add_option("--shapes", options->shapes, "all, or model names, comma-separated")->capture_default_str();
  verb->add_option("--tokens", options->tokens,
                   "of each rank: numbers, comma-separated, or matrix (1024,4096,8192), decode (64,256), published "
                   "(512,2048)")
      ->capture_default_str();
  verb->add_option("--routing", options->routings, "comma-separated, of balanced,skewed,one_expert")
      ->capture_default_str();
  verb->add_option("--remote-share", options->remote_shares,
                   "of the choices, those of other ranks' experts: fractions (7/8), comma-separated; natural: (R-1)/R")
      ->capture_default_str();
  add_variants(*verb, options->variants, moe_table);
  add_run_options(*verb, *options);
  verb->add_option("--platform", options->platform,
                   "platform profile: also the share of its drain rate that exchanges reach");
  verb->add_option("--write-routing", options->routing_file,
                   "write the routings of these cells for other programs and measure nothing; --devices then only says "
                   "how many ranks");
  verb->add_flag("--verify", options->verify,
                 "compare sampled tokens' results with the layer in double; exit code 1 if they are wrong");
  finish_verb(*verb, options, invocation, bench_moe);
}

}  // namespace xstage::cli
