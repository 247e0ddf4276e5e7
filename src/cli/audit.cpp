/// `xstage audit`: may this kernel store its remote tiles and go on, or will its stores stall it?

#include "xstage/audit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>

#include "cli/audit_outcome.hpp"
#include "cli/audit_report.hpp"
#include "cli/quantities.hpp"
#include "cli/verbs.hpp"
#include "cli/wording.hpp"
#include "xstage/files.hpp"

namespace xstage::cli {

namespace {

struct AuditOptions {
  std::string platform;
  std::string workload_file;
  Workload workload;
  std::string regime = "both";
  double max_stall = 0;  ///< share of the tile time that a regime may stall and still pass
  bool json = false;
};

ExitCode exit_code_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::passed:
      return ExitCode::success;
    case Outcome::failed:
      return ExitCode::test_failed;
    case Outcome::not_decided:
      break;
  }
  return ExitCode::cannot_decide;
}

/// "Test (aligned, stalls of at most 5% of the tile time): passed".
std::string test_line(const AuditOptions& options, Outcome outcome) {
  std::string asked = options.regime == "both" ? "both regimes" : options.regime;
  if (options.max_stall > 0) {
    asked += fmt::format(", stalls of at most {:g}% of the tile time", 100 * options.max_stall);
  }
  return fmt::format("\nTest ({}): {}\n", asked, words_of(outcome));
}

Workload workload_of(const AuditOptions& options) {
  if (options.workload_file.empty()) {
    return options.workload;
  }
  return parse_workload(read_text(options.workload_file), options.workload_file);
}

ExitCode audit_workload(Console& console, const AuditOptions& options) {
  const Platform platform = read_platform(options.platform);
  const Audit result = audit(platform, workload_of(options));
  const Outcome outcome = outcome_of(result, options.regime, options.max_stall);
  if (options.json) {
    Json document = audit_json(platform, result);
    document["tested_regime"] = options.regime;
    document["max_stall"] = options.max_stall;
    document["passed"] = outcome == Outcome::passed;
    document["outcome"] = words_of(outcome);
    print_json(console.out, document);
  } else {
    print_audit(console.out, platform, result);
    console.out << test_line(options, outcome);
  }
  return exit_code_of(outcome);
}

/// Either a file or the three numbers; a mixture would hide which of them was used.
void require_one_source(const CLI::App& verb, const AuditOptions& options) {
  const bool any_number = verb.count("--producers") + verb.count("--bytes") + verb.count("--gap") +
                              verb.count("--coincident") + verb.count("--path") + verb.count("--staging-slots") >
                          0;
  const bool all_numbers = verb.count("--producers") > 0 && verb.count("--bytes") > 0 && verb.count("--gap") > 0;
  if (!options.workload_file.empty() && any_number) {
    throw UsageError("audit: give a workload file or --producers, --bytes and --gap, not both");
  }
  if (options.workload_file.empty() && !all_numbers) {
    throw UsageError("audit: give a workload file, or all of --producers, --bytes and --gap");
  }
}

void add_workload_options(CLI::App& verb, const std::shared_ptr<AuditOptions>& options) {
  verb.add_option("workload", options->workload_file,
                  "workload file, or what audit --json printed (JSON); - is the standard input");
  verb.add_option("--producers", options->workload.producers, "K: CTAs that store remote tiles");
  verb.add_option_function<std::string>(
      "--bytes", [options](const std::string& text) { options->workload.bytes = parse_bytes("--bytes", text); },
      "B: remote bytes of one producer's tile (32768 or 32KiB)");
  verb.add_option_function<std::string>(
      "--gap", [options](const std::string& text) { options->workload.gap_us = parse_microseconds("--gap", text); },
      "G: microseconds that a producer computes between two remote tiles");
  verb.add_option("--coincident", options->workload.coincident_producers,
                  "K_act: producers that reach a tile boundary together (default: all)");
  verb.add_option_function<std::string>(
      "--path", [options](const std::string& text) { options->workload.path = parse_path_option(text); }, path_help);
  verb.add_option("--staging-slots", options->workload.staging_slots,
                  "tiles that may wait in shared memory before the tensor cores stop");
}

}  // namespace

void add_audit(CLI::App& tool, Invocation& invocation) {
  auto options = std::make_shared<AuditOptions>();
  CLI::App* verb = tool.add_subcommand("audit", "Will a kernel's remote stores stall it, and what would change that?");
  verb->add_option("--platform", options->platform, "platform profile (JSON)")->required();
  add_workload_options(*verb, options);
  verb->add_option("--regime", options->regime, "the regime that must pass: aligned, free-running or both")
      ->check(CLI::IsMember({"aligned", "free-running", "both"}));
  verb->add_option_function<std::string>(
      "--max-stall", [options](const std::string& text) { options->max_stall = parse_share("--max-stall", text); },
      "a regime passes, too, if it stalls for at most this share of the tile time (5% or 0.05; default: 0)");
  verb->add_flag("--json", options->json, json_help);
  verb->callback([verb, options, &invocation] {
    require_one_source(*verb, *options);
    invocation.verb = [options](Console& console) { return audit_workload(console, *options); };
  });
}

}  // namespace xstage::cli
