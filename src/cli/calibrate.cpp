/// `xstage calibrate`: run the sweep on a node, keep the samples, fit the profile.

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>

#include "cli/calibration_results.hpp"
#include "cli/exit_code.hpp"
#include "cli/interrupt.hpp"
#include "cli/measurement_code.hpp"
#include "cli/node_choice.hpp"
#include "cli/output_paths.hpp"
#include "cli/point_options.hpp"
#include "cli/profile_report.hpp"
#include "cli/progress_bar.hpp"
#include "cli/simulated_samples.hpp"
#include "cli/verbs.hpp"
#include "cli/wording.hpp"
#include "xstage/calibrate.hpp"
#include "xstage/error.hpp"
#include "xstage/files.hpp"
#include "xstage/simulated_node.hpp"

namespace xstage::cli {

namespace {

struct CalibrateOptions {
  std::string node;
  bool quick = false;
  SweepChoice choice;
  std::string profile;
  std::string samples;
  std::string results;    ///< empty: none
  std::string simulated;  ///< preset or file of the simulated node whose rows the results have too
  bool json = false;
};

SamplesFile measure(Console& console, Node& node, const CalibrateOptions& options) {
  const InterruptGuard guard;
  ProgressBar bar(console.err, console.progress_bar);
  SamplesFile samples = run_sweep(
      node, options.quick,
      [&](std::size_t done, std::size_t total) {
        bar.show(done, total);
        return !InterruptGuard::requested();
      },
      options.choice);
  // The last experiment has no callback behind it.
  if (InterruptGuard::requested()) {
    throw Interrupted();
  }
  return samples;
}

void report(Console& console, const CalibrateOptions& options, const SamplesFile& samples, const Platform& platform) {
  if (options.json) {
    print_json(console.out, {{"schema", "xstage.calibration/1"},
                             {"profile_file", options.profile},
                             {"samples_file", options.samples},
                             {"results_file", options.results.empty() ? Json(nullptr) : Json(options.results)},
                             {"samples", samples.samples.size()},
                             {"profile", profile_json(platform)}});
    return;
  }
  if (is_standard_output(options.profile) || is_standard_output(options.samples) ||
      is_standard_output(options.results)) {
    return;
  }
  print_profile(console.out, platform);
  console.out << fmt::format("\nWrote {} ({} samples) and {}\n", options.samples, samples.samples.size(),
                             options.profile);
  if (!options.results.empty()) {
    console.out << fmt::format("Wrote {}\n", options.results);
  }
}

/// The only pair, if one is named.
std::optional<DevicePair> pair_of(const SweepChoice& choice) {
  if (!choice.source && !choice.destination) {
    return std::nullopt;
  }
  return device_pair(choice.source, choice.destination);
}

void check_options(const CalibrateOptions& options) {
  if (options.results.empty() != options.simulated.empty()) {
    throw UsageError("--results and --simulated need each other: a results file has measured and simulated rows");
  }
  if (!options.results.empty() && options.node.starts_with("simulated:")) {
    throw UsageError(fmt::format("--results with --node {}: its rows 'remote' are measured ones, from cuda or recorded",
                                 options.node));
  }
  if (!options.results.empty() && !options.choice.is_default()) {
    throw UsageError(
        "--results with a chosen sweep: a results file has the whole one; leave out --producers, --bytes, "
        "--gap-us, --path, --regime, --source and --destination");
  }
  require_different_files({file_of_node(options.node)}, {options.profile, options.samples, options.results});
  require_different_files({file_of_node("simulated:" + options.simulated)},
                          {options.profile, options.samples, options.results});
  if (options.json) {
    refuse_standard_output("-o", options.profile);
    refuse_standard_output("--samples", options.samples);
    refuse_standard_output("--results", options.results);
  }
  check_output(options.profile);
  check_output(options.samples);
  if (!options.results.empty()) {
    check_output(options.results);
    static_cast<void>(make_simulated_node(options.simulated));  // refuses unknown presets before the measurement
  }
}

/// Samples are written before the fit: if the fit finds them useless, minutes of measurement are still there to look
/// at.
ExitCode calibrate(Console& console, const CalibrateOptions& options) {
  check_options(options);
  const std::optional<DevicePair> pair = pair_of(options.choice);
  const std::unique_ptr<Node> node = make_node(options.node, pair);
  SamplesFile samples = measure(console, *node, options);
  if (!node->recorded_experiments()) {
    samples.node.command = console.command;
  }
  samples.code = code_of_measurement(console, options.node);
  write_output(console, options.samples, format_samples(samples));
  const Platform platform = fit(samples);
  write_output(console, options.profile, format_platform(platform));
  if (!options.results.empty()) {
    write_output(console, options.results,
                 format_calibration_results(platform, samples, simulated_samples(options.simulated, samples)));
  }
  report(console, options, samples, platform);
  return ExitCode::success;
}

void add_choices(CLI::App& verb, const std::shared_ptr<CalibrateOptions>& options) {
  SweepChoice* choice = &options->choice;  // lives as long as the options, which the verb's callback owns
  const auto add = [&](const char* name, auto use, const char* help) {
    verb.add_option_function<std::string>(name, use, help)->group("Choices (default: the whole sweep)");
  };
  add(
      "--producers", [choice](const std::string& text) { choice->producers = parse_counts("--producers", text); },
      "counts of CTAs, a list or a range (48,64 or 8:132:4)");
  add(
      "--bytes", [choice](const std::string& text) { choice->bytes = parse_byte_list("--bytes", text); },
      "bytes of one producer's burst, a list or a range (16KiB,32KiB or 16k:256k:x2)");
  add(
      "--gap-us,--gap", [choice](const std::string& text) { choice->gaps_us = parse_gap_list("--gap-us", text); },
      "gaps of held-out bursts in microseconds, values or FIRST:LAST:STEP (0,10:40:5)");
  add(
      "--path", [choice](const std::string& text) { choice->paths = parse_paths(text); },
      "store paths: store4, store8, store16, bulk");
  add(
      "--regime", [choice](const std::string& text) { choice->regimes = parse_regimes("--regime", text); },
      "regimes of held-out bursts: aligned, free-running");
  add(
      "--source", [choice](const std::string& text) { choice->source = parse_count("--source", text, 0); },
      source_help);
  add(
      "--destination",
      [choice](const std::string& text) { choice->destination = parse_count("--destination", text, 0); },
      destination_help);
}

}  // namespace

void add_calibrate(CLI::App& tool, Invocation& invocation) {
  auto options = std::make_shared<CalibrateOptions>();
  CLI::App* verb = tool.add_subcommand("calibrate", "Measure a node and fit its platform profile");
  verb->add_option("--node", options->node, "cuda, simulated:PRESET, simulated:FILE.json or recorded:FILE.csv")
      ->required();
  verb->add_flag("--quick", options->quick, "16-byte stores only");
  add_choices(*verb, options);
  verb->add_option("-o,--output", options->profile, "platform profile to write (JSON); - is the standard output")
      ->required();
  verb->add_option("--samples", options->samples, "samples to write (CSV)")->required();
  verb->add_option("--results", options->results,
                   "results file to write (JSON): every sample beside its prediction, and --simulated's samples");
  verb->add_option("--simulated", options->simulated, simulated_help);
  verb->add_flag("--json", options->json, json_help);
  verb->callback([options, &invocation] {
    invocation.verb = [options](Console& console) { return calibrate(console, *options); };
  });
}

}  // namespace xstage::cli
