/// `xstage calibrate`: run the sweep on a node, keep the samples, fit the profile.

#include <fmt/format.h>

#include <memory>
#include <string>

#include "bench/code_record.hpp"
#include "cli/interrupt.hpp"
#include "cli/node_choice.hpp"
#include "cli/output_paths.hpp"
#include "cli/profile_report.hpp"
#include "cli/progress_bar.hpp"
#include "cli/verbs.hpp"
#include "cli/wording.hpp"
#include "xstage/calibrate.hpp"
#include "xstage/error.hpp"
#include "xstage/files.hpp"

namespace xstage::cli {

namespace {

struct CalibrateOptions {
  std::string node;
  bool quick = false;
  std::string profile;
  std::string samples;
  bool json = false;
};

SamplesFile measure(Console& console, Node& node, const CalibrateOptions& options) {
  const InterruptGuard guard;
  ProgressBar bar(console.err, console.progress_bar);
  SamplesFile samples = run_sweep(node, options.quick, [&](std::size_t done, std::size_t total) {
    bar.show(done, total);
    return !InterruptGuard::requested();
  });
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
                             {"samples", samples.samples.size()},
                             {"profile", profile_json(platform)}});
    return;
  }
  print_profile(console.out, platform);
  console.out << fmt::format("\nWrote {} ({} samples) and {}\n", options.samples, samples.samples.size(),
                             options.profile);
}

/// As it stands in the samples file; empty where the build has no table of its kernels.
std::string code_of_measurement(const Console& console) {
  const auto kernels = bench::calibration_kernels(console.fingerprints);
  const auto record = bench::code_record(console.fingerprints, "calibration", kernels);
  return record.is_null() ? "" : record.dump();
}

/// Samples are written before the fit: if the fit finds them useless, minutes of measurement are still there to look
/// at.
ExitCode calibrate(Console& console, const CalibrateOptions& options) {
  require_different_files({options.profile, options.samples});
  check_writable(options.profile);
  check_writable(options.samples);
  const std::unique_ptr<Node> node = make_node(options.node);
  SamplesFile samples = measure(console, *node, options);
  if (!node->recorded_experiments()) {
    samples.node.command = console.command;
    if (samples.node.kind == "cuda") {
      samples.code = code_of_measurement(console);
    }
  }
  write_text(options.samples, format_samples(samples));
  const Platform platform = fit(samples);
  write_text(options.profile, format_platform(platform));
  report(console, options, samples, platform);
  return ExitCode::success;
}

}  // namespace

void add_calibrate(CLI::App& tool, Invocation& invocation) {
  auto options = std::make_shared<CalibrateOptions>();
  CLI::App* verb = tool.add_subcommand("calibrate", "Measure a node and fit its platform profile");
  verb->add_option("--node", options->node, "cuda, simulated:PRESET, simulated:FILE.json or recorded:FILE.csv")
      ->required();
  verb->add_flag("--quick", options->quick, "16-byte stores only");
  verb->add_option("-o,--output", options->profile, "platform profile to write (JSON)")->required();
  verb->add_option("--samples", options->samples, "samples to write (CSV)")->required();
  verb->add_flag("--json", options->json, json_help);
  verb->callback([options, &invocation] {
    invocation.verb = [options](Console& console) { return calibrate(console, *options); };
  });
}

}  // namespace xstage::cli
