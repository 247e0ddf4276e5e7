#pragma once
/// What the benchmarks of `xstage bench` have in common on the command line.

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

#include "bench/bench_run.hpp"
#include "cli/console.hpp"
#include "cli/exit_code.hpp"
#include "cli/verbs.hpp"
#include "xstage/error.hpp"
#include "xstage/node.hpp"

namespace xstage::cli {

/// The words of an option: a mistake in them is one of usage.
template <typename Parse>
auto parsed(std::string_view option, Parse&& parse) {
  try {
    return parse();
  } catch (const InputError& error) {
    throw UsageError(fmt::format("{}: {}", option, error.what()));
  }
}

/// Throws UsageError.
void check_trials(int trials);

/// One GPU a rank: those named, or all, at most as many as a heap may have.
[[nodiscard]] std::vector<int> choose_devices(const std::vector<int>& named, const NodeDescription& node);

/// What the run says to a script, and why. `output`: the file that has its `rows`, or empty.
[[nodiscard]] ExitCode verdict(Console& console, const std::string& output, std::size_t rows,
                               const bench::RunState& state);

/// Option help that the benchmarks share.
inline constexpr const char* devices_help = "GPUs, one a rank (0,1); default: all";
inline constexpr const char* trials_help = "rounds; at least 6 for an interval";
inline constexpr const char* plan_help =
    "fields of the plan of {} that you set, KEY=VALUE,... with {}; default: as the rule picks them";
inline constexpr const char* result_file_help = "result file to write (JSON)";

void add_bench_attention(CLI::App& bench, Invocation& invocation);
void add_bench_ulysses(CLI::App& bench, Invocation& invocation);
void add_bench_moe(CLI::App& bench, Invocation& invocation);

}  // namespace xstage::cli
