#include "cli/calibration_results.hpp"

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "calibrate/node_distance.hpp"
#include "cli/comparison_json.hpp"
#include "report/result_file.hpp"
#include "xstage/calibrate.hpp"
#include "xstage/error.hpp"
#include "xstage/version.hpp"

namespace xstage::cli {

namespace {

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
    predictions.emplace(calibrate::key_of(row.sample), row);
  }
  return predictions;
}

void append_rows(Json& rows, const Platform& platform, const SamplesFile& samples, std::string_view variant_of_remote) {
  const auto predictions = predictions_by_key(platform, samples);
  std::set<std::string> seen;
  for (const BurstSample& sample : samples.samples) {
    const std::string key = calibrate::key_of(sample);
    if (!seen.insert(key).second) {
      throw InputError("two samples with the same key: " + key);
    }
    const auto prediction = predictions.find(key);
    rows.push_back(row_of(sample, prediction == predictions.end() ? nullptr : &prediction->second,
                          sample.experiment.target == Target::local ? "local" : variant_of_remote));
  }
}

}  // namespace

std::string format_calibration_results(const Platform& platform, const SamplesFile& measured,
                                       const SamplesFile& simulated) {
  Json document = bench::result_document("calibration", measured.node);
  document["code"] = measured.code.empty() ? Json(nullptr) : Json::parse(measured.code);
  document["percentiles"] = "p5 and p95 are of the issue time, over producers, bursts and the median trial";
  document["held_out_errors"] = errors_json(validate(platform, measured, false).errors);
  // The simulated rows need no GPU and come from the tool that writes the file, the others from `commit` above.
  document["simulated"] = {
      {"node", simulated.node.name}, {"commit", source_commit()}, {"distances", distances_json(measured, simulated)}};
  document["rows"] = Json::array();
  append_rows(document["rows"], platform, measured, "remote");
  append_rows(document["rows"], platform, simulated, "simulated");
  return bench::format_result_file(document);
}

}  // namespace xstage::cli
