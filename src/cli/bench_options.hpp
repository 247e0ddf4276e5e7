#pragma once
/// What the benchmarks of `xstage bench` have in common on the command line, up to the first trial.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/bench_run.hpp"
#include "bench/prediction_basis.hpp"
#include "bench/variant_table.hpp"
#include "cli/console.hpp"
#include "cli/exit_code.hpp"
#include "cli/verbs.hpp"
#include "cli/wording.hpp"
#include "xstage/error.hpp"
#include "xstage/node.hpp"
#include "xstage/platform.hpp"

namespace xstage::cli {

/// The options of each verb are these and its own. Files stay empty where the verb has no such option.
struct BenchOptions {
  std::vector<int> devices;
  int trials = 20;
  std::string output;
  std::string platform;
  std::string trace;
  std::string sustained = "none";
  bool verify = false;
  bool spans = false;
  bool list = false;
  bool json = false;
};

/// --devices, --trials, --sustained, --list and --output.
void add_run_options(CLI::App& verb, BenchOptions& options);

/// --variants, of this table.
template <typename Entry>
void add_variants(CLI::App& verb, std::string& variants, std::span<const Entry> table) {
  variants = bench::default_variants(table);
  const std::string alone = bench::variant_names(table, [](const Entry& entry) { return !entry.among_ranks; });
  verb.add_option("--variants", variants,
                  fmt::format("comma-separated, of {}; one rank has {} only", bench::all_variants(table), alone))
      ->capture_default_str();
}

/// --json, which comes last in a verb's help, and what the verb does.
template <typename Options>
void finish_verb(CLI::App& verb, const std::shared_ptr<Options>& options, Invocation& invocation,
                 ExitCode (*action)(Console&, const Options&)) {
  verb.add_flag("--json", options->json, json_help);
  verb.callback([options, &invocation, action] {
    invocation.verb = [options, action](Console& console) { return action(console, *options); };
  });
}

/// The words of an option: a mistake in them is one of usage.
template <typename Parse>
auto parsed(std::string_view option, Parse&& parse) {
  try {
    return parse();
  } catch (const InputError& error) {
    throw UsageError(fmt::format("{}: {}", option, error.what()));
  }
}

/// What can be said before any file is read or GPU asked for. Throws UsageError.
void check_options(const BenchOptions& options);

/// None if none is named, and for a list.
[[nodiscard]] std::optional<Platform> read_named_platform(const BenchOptions& options);

/// What a benchmark is measured on, or would be.
struct BenchTarget {
  NodeDescription node;
  std::vector<int> devices;  // one a rank
  int multiprocessors = 0;   // of the first of them
  [[nodiscard]] int ranks() const { return static_cast<int>(devices.size()); }
};

/// The machine, with the command line for provenance. Throws DeviceError if it has no GPU, and then InputError if what
/// will be measured on it cannot be written. With --list: no machine, but as many GPUs as the options name, two if they
/// name none, of 132 multiprocessors each.
[[nodiscard]] BenchTarget find_target(const Console& console, const BenchOptions& options);

/// One GPU a rank: those named, or all, at most as many as a heap may have.
[[nodiscard]] std::vector<int> choose_devices(const std::vector<int>& named, const NodeDescription& node);

/// The fields that the options of every benchmark have.
void set_run(bench::RunOptions& run, const BenchOptions& options, const BenchTarget& target);

/// Predictions for GPUs like the first of the target, none without a platform. Throws InputError if the platform knows
/// too little.
[[nodiscard]] std::optional<bench::PredictionBasis> prediction_basis(std::optional<Platform> platform,
                                                                     const BenchTarget& target);

/// Option help that the benchmarks share.
inline constexpr const char* plan_help =
    "fields of the plan of {} that you set, KEY=VALUE,... with {}; default: as the rule picks them";
inline constexpr const char* trace_help = "the spans of the last fused cell, as Perfetto JSON; implies --spans";

void add_bench_attention(CLI::App& bench, Invocation& invocation);
void add_bench_ulysses(CLI::App& bench, Invocation& invocation);
void add_bench_moe(CLI::App& bench, Invocation& invocation);

}  // namespace xstage::cli
