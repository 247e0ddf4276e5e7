/// `xstage validate`: predicted against measured, on samples that the fit has not seen.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "calibrate/error_summary.hpp"
#include "cli/comparison_json.hpp"
#include "cli/exit_code.hpp"
#include "cli/json_output.hpp"
#include "cli/output_paths.hpp"
#include "cli/quantities.hpp"
#include "cli/same_machine.hpp"
#include "cli/simulated_samples.hpp"
#include "cli/table.hpp"
#include "cli/verbs.hpp"
#include "cli/wording.hpp"
#include "xstage/calibrate.hpp"
#include "xstage/error.hpp"

namespace xstage::cli {

namespace {

struct ValidateOptions {
  std::string platform;
  std::string samples;
  std::string simulated;  ///< preset or file; empty: none
  std::string group;      ///< empty: every group
  bool all = false;
  bool rows = false;
  std::optional<double> max_error;  ///< a fraction
  bool json = false;
};

/// The prediction that goes furthest: corrected where there is a correction.
double worst_error(const ErrorSummary& error) {
  return error.corrected.samples > 0 ? error.corrected.worst : error.law.worst;
}

/// Errors beyond --max-error. Of the slowest producer and of a kernel that waits the law claims nothing, and onsets are
/// counted in bursts.
std::vector<ErrorSummary> exceeding(const Validation& validation, double max_error) {
  std::vector<ErrorSummary> found;
  std::copy_if(validation.errors.begin(), validation.errors.end(), std::back_inserter(found),
               [&](const ErrorSummary& error) {
                 return error.of_the_law && !error.in_bursts && worst_error(error) > max_error;
               });
  return found;
}

/// Keeps the groups whose name holds the text.
Validation only_groups(Validation validation, const std::string& text) {
  std::erase_if(validation.errors,
                [&](const ErrorSummary& error) { return error.group.find(text) == std::string::npos; });
  std::erase_if(validation.rows, [&](const ComparedSample& row) {
    return calibrate::group_name(row.sample.experiment).find(text) == std::string::npos;
  });
  return validation;
}

Json compared_row_json(const ComparedSample& row) {
  const BurstExperiment& experiment = row.sample.experiment;
  return {{"path", name_of(experiment.path)},
          {"mode", name_of(experiment.mode)},
          {"regime", name_of(experiment.regime)},
          {"direction", name_of(experiment.direction)},
          {"filler", name_of(experiment.filler)},
          {"source", experiment.source},
          {"producers", experiment.producers},
          {"bytes_per_producer", experiment.bytes},
          {"held_out", experiment.held_out},
          {"burst_index", row.sample.burst_index},
          {"gap_us", row.sample.gap_us},
          {"issue_us", row.sample.issue_us},
          {"issue_slowest_us", row.sample.issue_slowest_us},
          {"period_us", row.sample.period_us},
          {"predicted_issue_us", row.predicted_issue_us},
          {"uneven_issue_us", row.uneven_issue_us},
          {"predicted_period_us", row.predicted_period_us},
          {"corrected_period_us", row.corrected_period_us},
          {"completion_coupled_period_us", row.completion_coupled_period_us},
          {"drain_time_us", row.drain_time_us}};
}

/// The part of a profile.
Json document(const ValidateOptions& options, const Platform& platform, const Validation& validation) {
  Json rows = Json::array();
  std::transform(validation.rows.begin(), validation.rows.end(), std::back_inserter(rows), compared_row_json);
  return {{"schema", "xstage.validation/1"},
          {"platform", platform.node.name},
          {"held_out_only", !options.all},
          {"errors", errors_json(validation.errors)},
          {"rows", rows}};
}

/// A column of the sample table.
struct Column {
  std::string heading;
  std::function<std::string(const ComparedSample&)> cell;
};

Column number_column(const char* heading, std::function<double(const ComparedSample&)> value) {
  return {heading, [value = std::move(value)](const ComparedSample& row) { return fixed(value(row), 2); }};
}

/// Columns that only some groups have are left out where no row fills them.
std::vector<Column> columns_for(const std::vector<const ComparedSample*>& rows) {
  const auto some = [&](double ComparedSample::*value) {
    return std::any_of(rows.begin(), rows.end(), [&](const ComparedSample* row) { return !std::isnan(row->*value); });
  };
  std::vector<Column> columns{
      {"producers", [](const ComparedSample& row) { return std::to_string(row.sample.experiment.producers); }},
      {"bytes per\nproducer", [](const ComparedSample& row) { return std::to_string(row.sample.experiment.bytes); }}};
  if (rows.front()->sample.burst_index >= 0) {
    columns.push_back({"burst", [](const ComparedSample& row) { return std::to_string(row.sample.burst_index); }});
  }
  columns.push_back(number_column("gap\nmeasured", [](const ComparedSample& row) { return row.sample.gap_us; }));
  columns.push_back(
      number_column("issue time\nmeasured", [](const ComparedSample& row) { return row.sample.issue_us; }));
  columns.push_back(number_column("\npredicted", [](const ComparedSample& row) { return row.predicted_issue_us; }));
  if (some(&ComparedSample::uneven_issue_us)) {
    columns.push_back(number_column("\nuneven drain", [](const ComparedSample& row) { return row.uneven_issue_us; }));
  }
  columns.push_back(number_column("period\nmeasured", [](const ComparedSample& row) { return row.sample.period_us; }));
  columns.push_back(number_column("\npredicted", [](const ComparedSample& row) { return row.predicted_period_us; }));
  if (some(&ComparedSample::corrected_period_us)) {
    columns.push_back(number_column("\nfixed work", [](const ComparedSample& row) { return row.corrected_period_us; }));
  }
  columns.push_back(number_column("\ncompletion-coupled",
                                  [](const ComparedSample& row) { return row.completion_coupled_period_us; }));
  return columns;
}

void print_group(std::ostream& out, const std::string& group, const std::vector<const ComparedSample*>& rows) {
  const std::vector<Column> columns = columns_for(rows);
  std::vector<std::string> headings;
  std::transform(columns.begin(), columns.end(), std::back_inserter(headings),
                 [](const Column& column) { return column.heading; });
  Table table(headings);
  for (const ComparedSample* row : rows) {
    std::vector<std::string> cells;
    std::transform(columns.begin(), columns.end(), std::back_inserter(cells),
                   [&](const Column& column) { return column.cell(*row); });
    table.add_row(std::move(cells));
  }
  out << '\n' << group << " (times in microseconds)\n";
  table.print(out);
}

void print_rows(std::ostream& out, const Validation& validation) {
  std::vector<std::string> order;
  std::map<std::string, std::vector<const ComparedSample*>> groups;
  for (const ComparedSample& row : validation.rows) {
    const std::string group = calibrate::group_name(row.sample.experiment);
    if (groups[group].empty()) {
      order.push_back(group);
    }
    groups[group].push_back(&row);
  }
  for (const std::string& group : order) {
    print_group(out, group, groups[group]);
  }
}

/// The paper's law beside what corrects it: a correction alone would hide what the law misses.
void print_errors(std::ostream& out, const Validation& validation) {
  Table table({"samples of", "error of", "samples", "law:\nmedian", "\nworst", "corrected:\nmedian", "\nworst",
               "corrected for"});
  table.left_align(2);
  for (const ErrorSummary& error : validation.errors) {
    const auto text = [&](double value) {
      return std::isnan(value) ? "-" : error.in_bursts ? fixed(value, 1) + " bursts" : percent(value);
    };
    table.add_row({error.group, error.quantity, std::to_string(error.law.samples), text(error.law.median),
                   text(error.law.worst), text(error.corrected.median), text(error.corrected.worst),
                   error.correction.empty() ? "-" : error.correction});
  }
  table.print(out);
}

Validation compare_with_profile(const ValidateOptions& options, const Platform& platform, const SamplesFile& samples) {
  Validation validation = only_groups(validate(platform, samples, options.all), options.group);
  if (validation.rows.empty()) {
    throw InputError(fmt::format("{}: no {}sample of stores to a peer to compare with{}", options.samples,
                                 options.all ? "" : "held-out ",
                                 options.group.empty() ? "" : " in a group named '" + options.group + "'"));
  }
  const auto compared = [](const ErrorSummary& error) { return error.of_the_law && !error.in_bursts; };
  if (std::none_of(validation.errors.begin(), validation.errors.end(), compared)) {
    throw InputError(
        fmt::format("{}: {} predicts none of its {} samples: their paths and producers must be in the profile",
                    options.samples, options.platform, validation.rows.size()));
  }
  return validation;
}

void print_comparison(std::ostream& out, const ValidateOptions& options, const Platform& platform,
                      const Validation& validation) {
  out << "Platform " << node_line(platform.node) << '\n'
      << fmt::format("Predicted against measured, {} {} samples\n\n", validation.rows.size(),
                     options.all ? "fitted and held-out" : "held-out");
  print_errors(out, validation);
  if (options.rows) {
    print_rows(out, validation);
  }
}

void print_test(std::ostream& out, double max_error, const std::vector<ErrorSummary>& excess) {
  out << fmt::format("\nTest (no error above {}): {}\n", percent(max_error), excess.empty() ? "passed" : "NOT passed");
  for (const ErrorSummary& error : excess) {
    out << fmt::format("  {}: {}: {}\n", error.group, error.quantity, percent(worst_error(error)));
  }
}

ExitCode validate_samples(Console& console, const ValidateOptions& options) {
  if (options.platform.empty() && options.simulated.empty()) {
    throw UsageError("validate needs --platform, --simulated or both: what the samples are compared with");
  }
  if (options.platform.empty() && (options.all || options.rows || !options.group.empty())) {
    throw UsageError("--all, --rows and --group choose among the predictions of --platform");
  }
  if (options.platform.empty() && options.max_error) {
    throw UsageError("--max-error judges the predictions of --platform");
  }
  require_different_files({options.platform, options.samples}, {});
  const SamplesFile samples = read_samples(options.samples);
  std::vector<ErrorSummary> excess;
  Json json{{"schema", "xstage.validation/1"}};
  if (!options.platform.empty()) {
    const Platform platform = read_platform(options.platform);
    require_same_machine(options.platform, platform.node, options.samples, samples.node);
    const Validation validation = compare_with_profile(options, platform, samples);
    if (options.max_error) {
      excess = exceeding(validation, *options.max_error);
    }
    if (options.json) {
      json = document(options, platform, validation);
    } else {
      print_comparison(console.out, options, platform, validation);
    }
  }
  if (!options.simulated.empty()) {
    const SamplesFile simulated = simulated_samples(options.simulated, samples);
    if (options.json) {
      json["simulated"] = {{"node", simulated.node.name}, {"distances", distances_json(samples, simulated)}};
    } else {
      console.out << (options.platform.empty() ? "" : "\n");
      print_distances(console.out, samples, simulated);
    }
  }
  if (options.json) {
    if (options.max_error) {
      json["max_error"] = *options.max_error;
      json["exceeded"] = errors_json(excess);
      json["passed"] = excess.empty();
    }
    print_json(console.out, json);
  } else if (options.max_error) {
    print_test(console.out, *options.max_error, excess);
  }
  return excess.empty() ? ExitCode::success : ExitCode::test_failed;
}

}  // namespace

void add_validate(CLI::App& tool, Invocation& invocation) {
  auto options = std::make_shared<ValidateOptions>();
  CLI::App* verb =
      tool.add_subcommand("validate", "Compare measured samples with a profile's predictions or a simulated node");
  verb->add_option("--platform", options->platform, "platform profile (JSON)");
  verb->add_option("--samples", options->samples, "samples (CSV)")->required();
  verb->add_option("--simulated", options->simulated, simulated_help);
  verb->add_flag("--all", options->all, "every sample, not only those held out from the fit");
  verb->add_option("--group", options->group, "only groups whose name holds this text (\"periodic, aligned\")");
  verb->add_flag("--rows", options->rows, "every sample beside its prediction, not only the errors");
  verb->add_option_function<std::string>(
      "--max-error", [options](const std::string& text) { options->max_error = parse_share("--max-error", text); },
      "exit code 1 if the worst error of a predicted period or mean issue time is above this (5% or 0.05)");
  verb->add_flag("--json", options->json, json_help);
  verb->callback([options, &invocation] {
    invocation.verb = [options](Console& console) { return validate_samples(console, *options); };
  });
}

}  // namespace xstage::cli
