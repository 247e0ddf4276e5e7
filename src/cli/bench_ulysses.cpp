/// `xstage bench ulysses`: a whole layer of sequence-parallel attention, and its computing alone.

#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "bench/result_file.hpp"
#include "bench/ulysses_bench.hpp"
#include "cli/bench_options.hpp"
#include "cli/interrupt.hpp"
#include "cli/json_output.hpp"
#include "cli/output_paths.hpp"
#include "cli/quantities.hpp"
#include "cli/wording.hpp"
#include "xstage/cuda_node.hpp"
#include "xstage/files.hpp"

namespace xstage::cli {

namespace {

struct UlyssesOptions {
  std::string shapes = "table";
  std::string variants = bench::all_ulysses_variants;
  std::vector<int> devices;
  int trials = 20;
  std::string output;
  bool verify = false;
  bool json = false;
};

std::string ratio_text(const bench::UlyssesRow& row) {
  std::string text;
  if (row.ratio) {
    text = fmt::format("{} [{}, {}]", fixed(row.ratio->ratio, 3), fixed(row.ratio->low, 3), fixed(row.ratio->high, 3));
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

bench::UlyssesBenchOutcome measure(Console& console, const UlyssesOptions& options,
                                   const bench::UlyssesBenchOptions& run, const NodeDescription& node) {
  std::ostream& lines = options.json ? console.err : console.out;
  lines << heading(static_cast<int>(run.devices.size())) << std::flush;
  bench::UlyssesBenchObserver observer;
  observer.row = [&](const bench::UlyssesRow& row) { lines << line_of(row) << std::flush; };
  observer.note = [&](const std::string& note) { console.err << "xstage: " << note << std::endl; };
  observer.proceed = [] { return !InterruptGuard::requested(); };
  // After every cell: what was measured is kept, whatever becomes of the rest.
  observer.cell_done = [&](const bench::UlyssesBenchOutcome& outcome) {
    if (!options.output.empty()) {
      write_text(options.output, bench::format_result_file(document(node, run, outcome)));
    }
  };
  return bench::run_ulysses_bench(run, observer);
}

ExitCode bench_ulysses(Console& console, const UlyssesOptions& options) {
  const auto shapes = parsed("--shapes", [&] { return bench::parse_ulysses_shapes(options.shapes); });
  // Whatever the number of ranks will be: names are checked before any GPU is asked for.
  static_cast<void>(parsed("--variants", [&] { return bench::parse_ulysses_variants(options.variants, 2); }));
  check_trials(options.trials);
  NodeDescription node = describe_cuda_devices();
  node.command = console.command;
  if (!options.output.empty()) {
    check_writable(options.output);
  }
  bench::UlyssesBenchOptions run;
  run.devices = choose_devices(options.devices, node);
  const int ranks = static_cast<int>(run.devices.size());
  run.variants = parsed("--variants", [&] { return bench::parse_ulysses_variants(options.variants, ranks); });
  run.cells = bench::make_ulysses_cells(shapes, ranks);
  run.trials = options.trials;
  run.verify = options.verify;
  const InterruptGuard guard;
  const bench::UlyssesBenchOutcome outcome = measure(console, options, run, node);
  if (options.json) {
    print_json(console.out, document(node, run, outcome));
  } else if (!options.output.empty()) {
    console.out << fmt::format("\nWrote {} ({} rows)\n", options.output, outcome.rows.size());
  }
  return verdict(console, options.output, outcome.rows.size(), outcome);
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
  verb->add_option("--devices", options->devices, devices_help)->delimiter(',');
  verb->add_option("--trials", options->trials, trials_help)->capture_default_str();
  verb->add_option("-o,--output", options->output, result_file_help);
  verb->add_flag("--verify", options->verify,
                 "compare samples with sums in double, and whole results with those of a call that waits between "
                 "kernels; exit code 1 if they are wrong");
  verb->add_flag("--json", options->json, json_help);
  verb->callback([options, &invocation] {
    invocation.verb = [options](Console& console) { return bench_ulysses(console, *options); };
  });
}

}  // namespace xstage::cli
