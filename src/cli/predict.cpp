/// `xstage predict`: what a burst costs on a platform, beside what it would cost if the issuer waited for completion.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "cli/json_output.hpp"
#include "cli/quantities.hpp"
#include "cli/table.hpp"
#include "cli/verbs.hpp"
#include "cli/wording.hpp"
#include "xstage/dispersion.hpp"
#include "xstage/error.hpp"
#include "xstage/files.hpp"

namespace xstage::cli {

namespace {

struct PredictOptions {
  std::string platform;
  int producers = 0;
  double bytes = 0;
  std::vector<double> gaps_us;
  int bursts = 0;  ///< 0: steady state
  bool aligned = false;
  StorePath path = StorePath::store16;
  bool json = false;
};

/// One line of the result: a gap in steady state, or one burst of a train.
struct PredictedBurst {
  double gap_us = 0;
  int burst_index = -1;
  double issue_us = 0;
  double overhead_us = 0;
  double period_us = 0;
  double backlog_bytes = not_measured;  ///< outstanding when the burst ends (trains)
  double completion_coupled_period_us = 0;
  double uneven_issue_us = not_measured;       ///< trains: issue time if the drain is shared unevenly
  double fixed_work_period_us = not_measured;  ///< free-running: each producer has a fixed number of bursts
};

Regime regime_of(const PredictOptions& options) {
  return options.aligned || options.bursts > 0 ? Regime::aligned : Regime::free_running;
}

OperatingPointOrReason usable_point(const Platform& platform, const PredictOptions& options) {
  OperatingPointOrReason point = operating_point(platform, options.path, options.producers, options.bytes);
  const bool needs_capacity = regime_of(options) == Regime::aligned;
  if (point.usable && (point.capacity_known || !needs_capacity)) {
    return point;
  }
  throw InputError(fmt::format("{}: cannot predict {} {} producers of {:.0f} bytes: {}", options.platform,
                               options.producers, words_of(regime_of(options)), options.bytes,
                               fmt::join(point.reasons, "; ")));
}

PredictedBurst steady_state(const model::OperatingPoint& point, Regime regime, double gap_us) {
  PredictedBurst result;
  result.gap_us = gap_us;
  result.issue_us = regime == Regime::aligned ? model::aligned::issue_us(point, gap_us)
                                              : model::free_running::issue_us(point, gap_us);
  result.period_us = result.issue_us + gap_us;
  result.overhead_us = result.issue_us - point.issue_floor_us;
  result.completion_coupled_period_us = model::completion_coupled::period_us(point, gap_us);
  if (regime == Regime::free_running) {
    result.fixed_work_period_us = model::free_running::fixed_work_period_us(point, gap_us);
  }
  return result;
}

std::vector<PredictedBurst> train(const model::OperatingPoint& point, double gap_us, int bursts) {
  std::vector<PredictedBurst> results;
  double backlog = 0;
  for (int index = 0; index < bursts; ++index) {
    const model::aligned::BurstOutcome outcome = model::aligned::next_burst(point, gap_us, backlog);
    backlog = outcome.backlog_at_end_bytes;
    PredictedBurst burst;
    burst.gap_us = gap_us;
    burst.burst_index = index;
    burst.issue_us = outcome.issue_us;
    burst.overhead_us = outcome.issue_us - point.issue_floor_us;
    burst.period_us = outcome.issue_us + gap_us;
    burst.backlog_bytes = backlog;
    burst.completion_coupled_period_us = model::completion_coupled::period_us(point, gap_us);
    results.push_back(burst);
  }
  return results;
}

/// Beside the recursion, not instead of it: the same train if the two halves of the producers drain at different rates.
void add_uneven_train(const model::OperatingPoint& point, const Estimate& unevenness,
                      std::vector<PredictedBurst>& bursts) {
  const bool applies =
      unevenness.value && std::isfinite(point.capacity_bytes) && point.capacity_bytes > 0 && point.issue_floor_us > 0;
  if (!applies) {
    return;
  }
  const std::vector<double> gaps(bursts.size(), bursts.front().gap_us);
  std::vector<double> issue(bursts.size());
  model::uneven_train_issue_us(point, *unevenness.value, gaps, issue);
  for (std::size_t index = 0; index < bursts.size(); ++index) {
    bursts[index].uneven_issue_us = issue[index];
  }
}

std::vector<PredictedBurst> predict_all(const model::OperatingPoint& point, const Estimate& unevenness,
                                        const PredictOptions& options) {
  std::vector<PredictedBurst> results;
  for (const double gap_us : options.gaps_us) {
    if (options.bursts == 0) {
      results.push_back(steady_state(point, regime_of(options), gap_us));
      continue;
    }
    std::vector<PredictedBurst> bursts = train(point, gap_us, options.bursts);
    add_uneven_train(point, unevenness, bursts);
    results.insert(results.end(), bursts.begin(), bursts.end());
  }
  return results;
}

Json row_json(const PredictedBurst& burst) {
  Json row = {{"gap_us", burst.gap_us}};
  if (burst.burst_index >= 0) {
    row["burst_index"] = burst.burst_index;
    row["outstanding_at_end_bytes"] = burst.backlog_bytes;
    row["uneven_issue_us"] = burst.uneven_issue_us;
  }
  row["issue_us"] = burst.issue_us;
  row["issue_overhead_us"] = burst.overhead_us;
  row["period_us"] = burst.period_us;
  if (!std::isnan(burst.fixed_work_period_us)) {
    row["fixed_work_period_us"] = burst.fixed_work_period_us;
  }
  row["completion_coupled_period_us"] = burst.completion_coupled_period_us;
  return row;
}

Json document(const Platform& platform, const PredictOptions& options, const OperatingPointOrReason& point,
              const std::vector<PredictedBurst>& bursts) {
  Json rows = Json::array();
  for (const PredictedBurst& burst : bursts) {
    rows.push_back(row_json(burst));
  }
  return {{"schema", "xstage.prediction/1"},
          {"platform", platform.node.name},
          {"path", name_of(options.path)},
          {"regime", name_of(regime_of(options))},
          {"mode", name_of(options.bursts > 0 ? BurstMode::train : BurstMode::periodic)},
          {"producers", options.producers},
          {"bytes_per_producer", options.bytes},
          {"operating_point", to_json(point)},
          {"rows", rows}};
}

void print_steady_state(std::ostream& out, const std::vector<PredictedBurst>& bursts, Regime regime) {
  std::vector<std::string> headings{"gap\n(microseconds)", "issue time\n(microseconds)",
                                    "back-pressure in it\n(microseconds)", "period\n(microseconds)"};
  if (regime == Regime::free_running) {
    headings.emplace_back("fixed-work period\n(microseconds)");
  }
  headings.insert(headings.end(), {"completion-coupled\nperiod (microseconds)", "burst-gap\nsaves"});
  Table table(headings);
  for (const PredictedBurst& burst : bursts) {
    std::vector<std::string> cells{fixed(burst.gap_us, 2), fixed(burst.issue_us, 2), fixed(burst.overhead_us, 2),
                                   fixed(burst.period_us, 2)};
    if (regime == Regime::free_running) {
      cells.push_back(fixed(burst.fixed_work_period_us, 2));
    }
    cells.insert(cells.end(), {fixed(burst.completion_coupled_period_us, 2),
                               percent(1 - burst.period_us / burst.completion_coupled_period_us)});
    table.add_row(cells);
  }
  table.print(out);
  if (regime == Regime::free_running) {
    out << "  fixed work: every producer makes the same number of bursts (tiles dealt out statically), tail included\n";
  }
}

void print_train(std::ostream& out, const std::vector<PredictedBurst>& bursts) {
  const bool uneven = !std::isnan(bursts.front().uneven_issue_us);
  std::vector<std::string> headings{"gap\n(microseconds)", "burst", "issue time\n(microseconds)"};
  if (uneven) {
    headings.emplace_back("with uneven drain\n(microseconds)");
  }
  headings.insert(headings.end(), {"back-pressure\n(microseconds)", "outstanding at its\nend (KiB)",
                                   "issue time and gap\n(microseconds)", "completion-coupled\n(microseconds)"});
  Table table(headings);
  for (const PredictedBurst& burst : bursts) {
    std::vector<std::string> cells{fixed(burst.gap_us, 2), std::to_string(burst.burst_index), fixed(burst.issue_us, 2)};
    if (uneven) {
      cells.push_back(fixed(burst.uneven_issue_us, 2));
    }
    cells.insert(cells.end(), {fixed(burst.overhead_us, 2), fixed(burst.backlog_bytes / 1024, 0),
                               fixed(burst.period_us, 2), fixed(burst.completion_coupled_period_us, 2)});
    table.add_row(std::move(cells));
  }
  table.print(out);
  if (uneven) {
    out << "  uneven drain: arbitration favours half of the producers; the others' back-pressure starts earlier\n";
  }
}

ExitCode predict(Console& console, const PredictOptions& options) {
  const Platform platform = read_platform(options.platform);
  const OperatingPointOrReason point = usable_point(platform, options);
  const std::vector<PredictedBurst> bursts =
      predict_all(point.point, path_profile(platform, options.path).drain_unevenness, options);
  if (options.json) {
    print_json(console.out, document(platform, options, point, bursts));
    return ExitCode::success;
  }
  console.out << "Platform " << node_line(platform.node) << '\n'
              << fmt::format("{} producers of {} each, {}\n", options.producers, bytes_text(options.bytes),
                             words_of(options.path));
  operating_point_listing(point).print(console.out);
  if (options.bursts > 0) {
    console.out << fmt::format("\nTrain of {} aligned bursts, the first one onto an empty fabric\n", options.bursts);
    print_train(console.out, bursts);
    return ExitCode::success;
  }
  console.out << fmt::format("\nSteady state, {} producers\n", words_of(regime_of(options)));
  print_steady_state(console.out, bursts, regime_of(options));
  return ExitCode::success;
}

}  // namespace

void add_predict(CLI::App& tool, Invocation& invocation) {
  auto options = std::make_shared<PredictOptions>();
  CLI::App* verb = tool.add_subcommand("predict", "Predict issue time and period of bursts on a platform");
  verb->add_option("--platform", options->platform, "platform profile (JSON)")->required();
  verb->add_option("--producers", options->producers, "K: CTAs that store")->required();
  verb->add_option_function<std::string>(
          "--bytes", [options](const std::string& text) { options->bytes = parse_bytes("--bytes", text); },
          "B: bytes of one producer's burst (32768 or 32KiB)")
      ->required();
  verb->add_option_function<std::string>(
          "--gap", [options](const std::string& text) { options->gaps_us = parse_gaps("--gap", text); },
          "G: microseconds between bursts, or FIRST:LAST:STEP")
      ->required();
  verb->add_option("--bursts", options->bursts, "a train of so many aligned bursts instead of the steady state")
      ->check(CLI::Range(1, 100000));
  verb->add_flag("--aligned", options->aligned, "all producers store at the same moment");
  verb->add_option_function<std::string>(
      "--path", [options](const std::string& text) { options->path = parse_path_option(text); }, path_help);
  verb->add_flag("--json", options->json, json_help);
  verb->callback(
      [options, &invocation] { invocation.verb = [options](Console& console) { return predict(console, *options); }; });
}

}  // namespace xstage::cli
