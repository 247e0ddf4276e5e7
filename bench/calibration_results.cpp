// Writes bench/results/calibration-*.json: every sample of a calibration beside the profile's predictions, and the
// simulated node's samples of the same experiments. Prints how far the simulated node is from the measured one.
//
//   calibration_results --platform P.json --samples MEASURED.csv [--simulated SIMULATED.csv] -o RESULTS.json

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "bench/result_file.hpp"
#include "xstage/calibrate.hpp"
#include "xstage/error.hpp"

namespace xstage {
namespace {

using Json = nlohmann::ordered_json;

/// What tells two rows of the file apart.
std::string key_of(const BurstSample& sample) {
  const BurstExperiment& e = sample.experiment;
  return fmt::format("{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}", name_of(e.path), name_of(e.mode), name_of(e.regime),
                     name_of(e.target), name_of(e.direction), name_of(e.filler), e.source, e.destinations.size(),
                     e.producers, e.bytes, e.threads, e.gap_us, sample.burst_index);
}

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

void put_if_known(Json& row, const char* name, double value) {
  if (std::isfinite(value)) {
    row[name] = value;
  }
}

/// Isolated bursts and trains are judged by the issue time, long series by the period.
double headline_us(const BurstSample& sample) {
  const BurstMode mode = sample.experiment.mode;
  return mode == BurstMode::isolated || mode == BurstMode::train ? sample.issue_us : sample.period_us;
}

Json row_of(const BurstSample& sample, const ComparedSample* prediction, std::string_view variant) {
  const BurstExperiment& e = sample.experiment;
  Json row{{"variant", variant},
           {"microseconds", number(headline_us(sample))},
           {"p5", number(sample.issue_p5_us)},
           {"p95", number(sample.issue_p95_us)},
           {"trials", sample.trials},
           {"path", name_of(e.path)},
           {"producers", e.producers},
           {"bytes", e.bytes},
           {"requested_gap_us", e.gap_us},
           {"gap_us", number(sample.gap_us)},
           {"direction", name_of(e.direction)},
           {"mode", name_of(e.mode)},
           {"regime", name_of(e.regime)},
           {"filler", name_of(e.filler)},
           {"source", e.source},
           {"destinations", e.destinations},
           {"burst_index", sample.burst_index},
           {"issue_us", number(sample.issue_us)},
           {"issue_slowest_us", number(sample.issue_slowest_us)},
           {"held_out", e.held_out}};
  put_if_known(row, "period_us", sample.period_us);
  put_if_known(row, "visible_us", sample.visible_us);
  put_if_known(row, "link_bytes_per_stored_byte", sample.link_bytes / sample.stored_bytes);
  if (prediction != nullptr) {
    put_if_known(row, "predicted_issue_us", prediction->predicted_issue_us);
    put_if_known(row, "predicted_period_us", prediction->predicted_period_us);
    put_if_known(row, "corrected_period_us", prediction->corrected_period_us);
    put_if_known(row, "uneven_issue_us", prediction->uneven_issue_us);
    put_if_known(row, "completion_coupled_us", prediction->completion_coupled_period_us);
  }
  return row;
}

std::map<std::string, ComparedSample> predictions_by_key(const Platform& platform, const SamplesFile& samples) {
  std::map<std::string, ComparedSample> predictions;
  for (const ComparedSample& row : validate(platform, samples, true).rows) {
    predictions.emplace(key_of(row.sample), row);
  }
  return predictions;
}

Json document_of(const SamplesFile& samples) {
  Json document = bench::result_document("calibration", samples.node);
  document["code"] = samples.code.empty() ? Json() : Json::parse(samples.code);
  document["percentiles"] = "p5 and p95 are of the issue time, over producers, bursts and the median trial";
  document["rows"] = Json::array();
  return document;
}

void append(Json& rows, const Platform& platform, const SamplesFile& samples, std::string_view remote_variant) {
  const auto predictions = predictions_by_key(platform, samples);
  std::set<std::string> seen;
  for (const BurstSample& sample : samples.samples) {
    const std::string key = key_of(sample);
    if (!seen.insert(key).second) {
      throw InputError("two samples with the same key: " + key);
    }
    const bool local = sample.experiment.target == Target::local;
    if (local && remote_variant == "simulated") {
      continue;
    }
    const auto prediction = predictions.find(key);
    rows.push_back(row_of(sample, prediction == predictions.end() ? nullptr : &prediction->second,
                          local ? "local" : remote_variant));
  }
}

/// Relative distance of the simulated node from the measured one, by quantity and mode.
void print_distance(const SamplesFile& measured, const SamplesFile& simulated) {
  std::map<std::string, BurstSample> by_key;
  for (const BurstSample& sample : simulated.samples) {
    by_key.emplace(key_of(sample), sample);
  }
  std::map<std::string, std::vector<double>> errors;
  for (const BurstSample& sample : measured.samples) {
    const auto found = by_key.find(key_of(sample));
    if (found == by_key.end() || sample.experiment.target == Target::local) {
      continue;
    }
    const double error = std::abs(headline_us(found->second) - headline_us(sample)) / headline_us(sample);
    if (std::isfinite(error)) {
      const BurstExperiment& e = sample.experiment;
      errors[fmt::format("{}, {}, {}", name_of(e.path), name_of(e.mode), name_of(e.regime))].push_back(error);
      errors["all"].push_back(error);
    }
  }
  fmt::print("{:<36} {:>8} {:>14} {:>20}\n", "simulated against measured", "samples", "median error",
             "90th percentile");
  for (auto& [group, values] : errors) {
    std::sort(values.begin(), values.end());
    fmt::print("{:<36} {:>8} {:>13.1f}% {:>19.1f}%\n", group, values.size(), 100 * values[values.size() / 2],
               100 * values[values.size() * 9 / 10]);
  }
}

int run(int argc, char** argv) {
  std::string platform_path;
  std::string samples_path;
  std::string simulated_path;
  std::string output_path;
  CLI::App app("Result file of a calibration");
  app.add_option("--platform", platform_path, "profile fitted to the measured samples")->required();
  app.add_option("--samples", samples_path, "measured samples")->required();
  app.add_option("--simulated", simulated_path, "samples of the simulated node, same sweep");
  app.add_option("-o,--output", output_path, "result file")->required();
  CLI11_PARSE(app, argc, argv);

  const Platform platform = read_platform(platform_path);
  const SamplesFile measured = read_samples(samples_path);
  Json document = document_of(measured);
  append(document["rows"], platform, measured, "remote");
  if (!simulated_path.empty()) {
    const SamplesFile simulated = read_samples(simulated_path);
    append(document["rows"], platform, simulated, "simulated");
    print_distance(measured, simulated);
  }
  write_text(output_path, bench::format_result_file(document));
  fmt::print("wrote {} ({} rows)\n", output_path, document["rows"].size());
  return 0;
}

}  // namespace
}  // namespace xstage

int main(int argc, char** argv) {
  try {
    return xstage::run(argc, argv);
  } catch (const xstage::InputError& error) {
    std::fprintf(stderr, "calibration_results: %s\n", error.what());
    return 3;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "calibration_results: unexpected failure: %s\n", error.what());
    return 4;
  }
}
