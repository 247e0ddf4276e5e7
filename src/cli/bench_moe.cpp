/// `xstage bench moe`: a mixture-of-experts layer, and the kernels that make it, each alone.

#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "bench/moe_bench.hpp"
#include "bench/result_file.hpp"
#include "cli/bench_options.hpp"
#include "cli/bench_run.hpp"
#include "cli/json_output.hpp"
#include "cli/output_paths.hpp"
#include "cli/quantities.hpp"
#include "xstage/cuda_node.hpp"
#include "xstage/files.hpp"

namespace xstage::cli {

namespace {

struct MoeOptions : BenchOptions {
  std::string shapes = "all";
  std::string tokens = "4096,8192";
  std::string routings = "balanced,skewed";
  std::string remote_shares = "natural";
  std::string variants = bench::all_moe_variants;
  std::string routing_file;
};

std::string rate_text(const bench::MoeRow& row) {
  if (!bench::is_exchange(row.times.variant)) {
    return fmt::format("{:>7.1f} TFLOP/s", bench::tflops(row));
  }
  const std::string share = row.drain_share ? fmt::format(", {}% of R", fixed(100 * *row.drain_share, 1)) : "";
  return fmt::format("{:>7.1f} GB/s{}", bench::gb_per_s(row), share);
}

std::string ratio_text(const bench::MoeRow& row) {
  std::string text;
  if (row.ratio) {
    text = fmt::format(", {} of linear1 + linear2", ratio_with_interval(*row.ratio));
  }
  if (row.parts_ratio) {
    text += fmt::format(", {} of all parts", fixed(row.parts_ratio->ratio, 3));
  }
  return text;
}

std::string heading(int ranks) {
  return fmt::format("{:<18} {:>6} {:<10} {:>6}  {:<14} {:>9}  {}\n", fmt::format("shape, R={}", ranks), "tokens",
                     "routing", "remote", "variant", "us", "rate");
}

std::string line_of(const bench::MoeRow& row) {
  return fmt::format("{:<18} {:>6} {:<10} {:>6}  {:<14} {:>9.1f}  {}{}\n", row.cell.shape.name, row.cell.tokens,
                     bench::routing_name(row.cell.skew), bench::share_text(row.cell.remote_share), row.times.variant,
                     bench::microseconds(row), rate_text(row), ratio_text(row));
}

Json document(const NodeDescription& node, const bench::MoeBenchOptions& run, const bench::MoeBenchOutcome& outcome) {
  Json json = bench::result_document("moe", node, run.devices);
  json["timing"] =
      "microseconds of one call in a CUDA graph of `replays` calls, maximum over ranks, which start together; trials "
      "of a cell's variants alternate, each after a rest of 15 ms; one_shot_us: one call from rest, until results are "
      "complete on every rank";
  json["rates"] =
      "tflops: of the rank with most rows; remote_bytes, gb_per_s: rows that leave the rank with most of them, or of "
      "a local twin would";
  json["ratios"] =
      "of time, medians over rounds with their 95% sign-test intervals: `ratio` to linear1 + linear2, `parts_ratio` to "
      "dispatch + linear1 + linear2 + combine, of `unfused_rows` + combine_rows";
  if (run.drain_gb_per_s) {
    json["drain_gb_per_s"] = *run.drain_gb_per_s;
  }
  json["rows"] = bench::rows_json(outcome.rows);
  return json;
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
  require_different_files({options.platform, options.output, options.routing_file});
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
  // Whatever the number of ranks will be: names are checked before any GPU is asked for.
  static_cast<void>(parsed("--variants", [&] { return bench::parse_moe_variants(options.variants, 2); }));
  check_options(options);
  if (!options.routing_file.empty()) {
    return write_routings(console, options, choice);
  }
  bench::MoeBenchOptions run;
  if (!options.platform.empty()) {
    run.drain_gb_per_s = drain_of(options.platform);
  }
  const NodeDescription node = describe_machine(console, options);
  set_run(run, options, node);
  const int ranks = static_cast<int>(run.devices.size());
  run.variants = parsed("--variants", [&] { return bench::parse_moe_variants(options.variants, ranks); });
  run.cells = bench::make_moe_cells(choice, ranks);
  Benchmark<bench::MoeBenchOutcome> benchmark;
  benchmark.measure = [&](const bench::MoeBenchObserver& observer) { return bench::run_moe_bench(run, observer); };
  benchmark.heading = heading(ranks);
  benchmark.lines = line_of;
  benchmark.document = [&](const bench::MoeBenchOutcome& outcome) { return document(node, run, outcome); };
  return run_benchmark(console, options, benchmark);
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
  verb->add_option(
          "--variants", options->variants,
          fmt::format("comma-separated, of {}; one rank has unfused, linear1 and linear2", bench::all_moe_variants))
      ->capture_default_str();
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
