/// `xstage fit`: a platform profile from samples measured earlier.

#include <memory>
#include <string>

#include "cli/output_paths.hpp"
#include "cli/profile_report.hpp"
#include "cli/verbs.hpp"
#include "cli/wording.hpp"
#include "xstage/calibrate.hpp"
#include "xstage/files.hpp"

namespace xstage::cli {

namespace {

struct FitOptions {
  std::string samples;
  std::string profile;
  bool json = false;
};

ExitCode fit_samples(Console& console, const FitOptions& options) {
  require_different_files({options.samples}, {options.profile});
  if (options.json) {
    refuse_standard_output("-o", options.profile);
  }
  check_output(options.profile);
  const SamplesFile samples = read_samples(options.samples);
  const Platform platform = fit(samples);
  write_output(console, options.profile, format_platform(platform));
  if (options.json) {
    print_json(console.out, {{"schema", "xstage.fit/1"},
                             {"profile_file", options.profile},
                             {"samples_file", options.samples},
                             {"samples", samples.samples.size()},
                             {"profile", profile_json(platform)}});
    return ExitCode::success;
  }
  if (is_standard_output(options.profile)) {
    return ExitCode::success;
  }
  print_profile(console.out, platform);
  console.out << "\nWrote " << options.profile << '\n';
  return ExitCode::success;
}

}  // namespace

void add_fit(CLI::App& tool, Invocation& invocation) {
  auto options = std::make_shared<FitOptions>();
  CLI::App* verb = tool.add_subcommand("fit", "Fit a platform profile to recorded samples");
  verb->add_option("samples", options->samples, "samples to read (CSV); - is the standard input")->required();
  verb->add_option("-o,--output", options->profile, "platform profile to write (JSON); - is the standard output")
      ->required();
  verb->add_flag("--json", options->json, json_help);
  verb->callback([options, &invocation] {
    invocation.verb = [options](Console& console) { return fit_samples(console, *options); };
  });
}

}  // namespace xstage::cli
