/// `xstage predict`: what a burst costs on a platform, beside what it would cost if the issuer waited for completion.

#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <string>

#include "cli/prediction_output.hpp"
#include "cli/quantities.hpp"
#include "cli/verbs.hpp"
#include "cli/wording.hpp"
#include "xstage/files.hpp"

namespace xstage::cli {

namespace {

constexpr int most_bursts = 100000;

struct PredictOptions {
  std::string platform;
  PredictionQuestion question;
  bool csv = false;
  bool json = false;
};

/// Whether at least one point extrapolates. All points are asked before the first row is printed, so that a point which
/// cannot be predicted leaves nothing half-written.
bool check_points(const Platform& platform, const PredictOptions& options) {
  bool extrapolates = false;
  for_each_point(platform, options.platform, options.question, [&](const PredictedPoint& point) {
    extrapolates = extrapolates || !extrapolation_text(point.found).empty();
  });
  return extrapolates;
}

std::unique_ptr<PredictionOutput> output_of(const PredictOptions& options, const PredictionContext& context) {
  return options.json ? json_output(context) : options.csv ? csv_output(context) : table_output(context);
}

ExitCode predict(Console& console, const PredictOptions& options) {
  check_rows(options.question);
  const Platform platform = read_platform(options.platform);
  const Estimate& unevenness = path_profile(platform, options.question.path).drain_unevenness;
  const PredictionContext context{
      platform, options.platform, options.question, unevenness, check_points(platform, options), console.out};
  const std::unique_ptr<PredictionOutput> output = output_of(options, context);
  output->begin();
  bool first = true;
  bool complete = true;
  for_each_point(platform, options.platform, options.question, [&](const PredictedPoint& point) {
    complete = complete && for_each_burst(point, unevenness, options.question, [&](const PredictedBurst& burst) {
                 output->row(point, burst);
                 if (first) {
                   console.out.flush();  // a reader of a pipe need not wait until its buffer is full
                   first = false;
                 }
                 return static_cast<bool>(console.out);
               });
  });
  if (complete) {
    output->end();
  }
  return ExitCode::success;
}

}  // namespace

void add_predict(CLI::App& tool, Invocation& invocation) {
  auto options = std::make_shared<PredictOptions>();
  PredictionQuestion* question = &options->question;  // lives as long as the options, which the callbacks own
  CLI::App* verb = tool.add_subcommand("predict", "Predict issue time and period of bursts on a platform");
  verb->add_option("--platform", options->platform, "platform profile (JSON)")->required();
  verb->add_option_function<std::string>(
          "--producers",
          [question](const std::string& text) { question->producers = parse_producers("--producers", text); },
          fmt::format("K: CTAs that store; {}", list_help))
      ->required();
  verb->add_option_function<std::string>(
          "--bytes", [question](const std::string& text) { question->bytes = parse_byte_sizes("--bytes", text); },
          "B: bytes of one producer's burst (32768 or 32KiB); a list as for --producers")
      ->required();
  verb->add_option_function<std::string>(
          "--gap", [question](const std::string& text) { question->gaps_us = parse_gaps("--gap", text); },
          "G: microseconds between bursts; a list as for --producers")
      ->required();
  verb->add_option("--bursts", question->bursts, "a train of so many aligned bursts instead of the steady state")
      ->check(CLI::Range(1, most_bursts));
  verb->add_flag("--aligned", question->aligned, "all producers store at the same moment");
  verb->add_option_function<std::string>(
      "--path", [question](const std::string& text) { question->path = parse_path_option(text); }, path_help);
  CLI::Option* csv = verb->add_flag("--csv", options->csv, "rows as comma-separated values, under a line of names");
  verb->add_flag("--json", options->json, json_help)->excludes(csv);
  verb->callback(
      [options, &invocation] { invocation.verb = [options](Console& console) { return predict(console, *options); }; });
}

}  // namespace xstage::cli
