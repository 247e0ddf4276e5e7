/// `xstage measure`: one point of a node. Does it stall?

#include "xstage/measure.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "cli/exit_code.hpp"
#include "cli/interrupt.hpp"
#include "cli/measure_report.hpp"
#include "cli/measurement_code.hpp"
#include "cli/node_choice.hpp"
#include "cli/output_paths.hpp"
#include "cli/point_options.hpp"
#include "cli/progress_bar.hpp"
#include "cli/quantities.hpp"
#include "cli/same_machine.hpp"
#include "cli/verbs.hpp"
#include "cli/wording.hpp"
#include "xstage/error.hpp"
#include "xstage/files.hpp"

namespace xstage::cli {

namespace {

struct MeasureOptions {
  std::string node = "cuda";
  BurstExperiment point;
  std::optional<int> producers;  ///< none: all multiprocessors
  std::optional<int> source;
  std::optional<int> destination;
  int repetitions = 5;
  std::string platform;  ///< empty: no predictions
  std::string samples;   ///< empty: none
  bool append = false;
  bool json = false;
  bool csv = false;
};

BurstMode parse_mode(const std::string& text) {
  for (const BurstMode mode : {BurstMode::periodic, BurstMode::train, BurstMode::fixed_work}) {
    if (name_of(mode) == text) {
      return mode;
    }
  }
  throw UsageError(fmt::format("--mode '{}': must be periodic, train or fixed_work", text));
}

void check_options(const MeasureOptions& options) {
  if (options.json && options.csv) {
    throw UsageError("--json and --csv: the standard output holds one of them");
  }
  if (options.append && options.samples.empty()) {
    throw UsageError("--append: needs -o, the samples file that grows");
  }
  if (options.json || options.csv) {
    refuse_standard_output("-o", options.samples);
  }
  if (options.append) {
    refuse_standard_output("--append -o", options.samples);
  }
  require_different_files({file_of_node(options.node), options.platform}, {options.samples});
  if (!options.samples.empty()) {
    check_output(options.samples);
  }
}

/// The file that grows; none where there is none yet.
std::optional<SamplesFile> file_to_extend(const MeasureOptions& options, const NodeDescription& node,
                                          const std::string& code) {
  if (!options.append || !std::filesystem::exists(options.samples)) {
    return std::nullopt;
  }
  SamplesFile file = read_samples(options.samples);
  const auto refuse = [&](const char* what, const std::string& there, const std::string& here) {
    throw InputError(fmt::format("{}: --append: its samples have {} '{}', these have '{}': one file holds one {}",
                                 options.samples, what, there, here, what));
  };
  if (node.kind != "recorded" && file.node.kind != node.kind) {
    refuse("kind of node", file.node.kind, node.kind);
  }
  if (file.node.name != node.name || file.node.devices.size() != node.devices.size()) {
    refuse("node", file.node.name, node.name);
  }
  require_same_machine("the node", node, options.samples, file.node);
  if (!code.empty() && !file.code.empty() && code != file.code) {
    refuse("machine code", file.code, code);
  }
  return file;
}

MeasuredPoint measure_point_of(Console& console, const MeasureOptions& options, RepeatedNode& nodes) {
  BurstExperiment point = options.point;
  const DevicePair pair = device_pair(options.source, options.destination);
  point.source = pair.source;
  point.destinations = {pair.destination};
  const NodeDescription node = nodes.of(0).describe();
  const auto source = static_cast<std::size_t>(pair.source);
  point.producers = options.producers.value_or(source < node.devices.size() ? node.devices[source].multiprocessors : 1);
  const InterruptGuard guard;
  ProgressBar bar(console.err, console.progress_bar);
  MeasuredPoint measured =
      measure_point([&](int repetition) -> Node& { return nodes.of(repetition); }, point, options.repetitions,
                    [&](std::size_t done, std::size_t total) {
                      bar.show(done, total);
                      return !InterruptGuard::requested();
                    });
  if (InterruptGuard::requested()) {
    throw Interrupted();
  }
  return measured;
}

void write_samples(Console& console, const MeasureOptions& options, const NodeDescription& node,
                   std::optional<SamplesFile> file, const std::string& code, const MeasuredPoint& point) {
  if (!file) {
    file = SamplesFile{node, {}, code};
    if (node.kind != "recorded") {
      file->node.sweep = "one point";
      file->node.command = console.command;
    }
  }
  file->code = file->code.empty() ? code : file->code;
  file->samples.insert(file->samples.end(), point.samples.begin(), point.samples.end());
  write_output(console, options.samples, format_samples(*file));
}

ExitCode measure(Console& console, const MeasureOptions& options) {
  check_options(options);
  std::optional<Platform> platform;
  if (!options.platform.empty()) {
    platform = read_platform(options.platform);
  }
  RepeatedNode nodes(options.node, device_pair(options.source, options.destination));
  const NodeDescription node = nodes.of(0).describe();
  if (platform) {
    require_same_machine(options.platform, platform->node, options.node, node);
  }
  const std::string code = options.samples.empty() ? "" : code_of_measurement(console, options.node);
  std::optional<SamplesFile> file = file_to_extend(options, node, code);
  MeasuredPoint point = measure_point_of(console, options, nodes);
  std::vector<std::string> reasons;
  if (platform) {
    reasons = predict_point(*platform, point);
  }
  if (!options.samples.empty()) {
    write_samples(console, options, node, std::move(file), code, point);
  }
  const PointReport report{node, point, platform ? &*platform : nullptr, reasons};
  if (options.json) {
    Json document = point_json(report);
    document["samples_file"] = options.samples.empty() ? Json(nullptr) : Json(options.samples);
    print_json(console.out, document);
  } else if (options.csv) {
    print_point_csv(console.out, report);
  } else if (!is_standard_output(options.samples)) {
    print_point(console.out, report);
    if (!options.samples.empty()) {
      console.out << fmt::format("\n{} {} ({} samples)\n", options.append ? "Added to" : "Wrote", options.samples,
                                 point.samples.size());
    }
  }
  return ExitCode::success;
}

void add_point_options(CLI::App& verb, const std::shared_ptr<MeasureOptions>& options) {
  const auto add = [&](const char* name, auto use, const char* help) {
    verb.add_option_function<std::string>(name, use, help);
  };
  add(
      "--producers", [options](const std::string& text) { options->producers = parse_count("--producers", text, 1); },
      "K: CTAs that store (default: one on every multiprocessor)");
  add(
      "--bytes",
      [options](const std::string& text) {
        options->point.bytes = static_cast<std::int64_t>(parse_bytes("--bytes", text));
      },
      "B: bytes of one producer's burst (default: 32KiB)");
  add(
      "--gap-us,--gap",
      [options](const std::string& text) { options->point.gap_us = parse_microseconds("--gap-us", text); },
      "G: microseconds that a producer computes between two bursts (default: 0)");
  add(
      "--path", [options](const std::string& text) { options->point.path = parse_path_option(text); },
      "store path: store4, store8, store16 or bulk (default: store16)");
  add(
      "--regime", [options](const std::string& text) { options->point.regime = parse_regime("--regime", text); },
      "aligned or free-running (default: free-running)");
  add(
      "--mode", [options](const std::string& text) { options->point.mode = parse_mode(text); },
      "periodic: steady state; train: burst by burst from an empty fabric; fixed_work (default: periodic)");
  add(
      "--source", [options](const std::string& text) { options->source = parse_count("--source", text, 0); },
      "device that stores (default: 0)");
  add(
      "--destination",
      [options](const std::string& text) { options->destination = parse_count("--destination", text, 0); },
      "device to whose memory it stores (default: 1)");
  add(
      "--bursts", [options](const std::string& text) { options->point.bursts = parse_count("--bursts", text, 1); },
      "bursts of a producer in one repetition (default: as many as calibrate takes)");
  add(
      "--repetitions",
      [options](const std::string& text) { options->repetitions = parse_count("--repetitions", text, 1); },
      "measurements of the point (default: 5); an interval needs two");
}

}  // namespace

void add_measure(CLI::App& tool, Invocation& invocation) {
  auto options = std::make_shared<MeasureOptions>();
  options->point.bytes = 32768;
  options->point.bursts = 0;
  CLI::App* verb = tool.add_subcommand("measure", "Measure one point of a node: will its bursts stall?");
  verb->add_option("--node", options->node,
                   "cuda (default), simulated:PRESET, simulated:FILE.json or recorded:FILE.csv");
  add_point_options(*verb, options);
  verb->add_option("--platform,--profile", options->platform,
                   "platform profile (JSON) whose predictions stand beside what is measured");
  verb->add_option("-o,--output", options->samples, "samples to write (CSV); - is the standard output");
  verb->add_flag("--append", options->append, "add the samples to those that the file of -o holds");
  verb->add_flag("--held-out", options->point.held_out, "mark the samples: validate takes them, fit does not");
  verb->add_flag("--json", options->json, json_help);
  verb->add_flag("--csv", options->csv, "the report as CSV, one line a quantity");
  verb->callback(
      [options, &invocation] { invocation.verb = [options](Console& console) { return measure(console, *options); }; });
}

}  // namespace xstage::cli
