#include "cli/comparison_json.hpp"

#include <algorithm>
#include <iterator>

#include "calibrate/node_distance.hpp"

namespace xstage::cli {

namespace {

Json error_json(const ErrorSummary& error) {
  return {{"group", error.group},
          {"quantity", error.quantity},
          {"samples", error.law.samples},
          {"unit", error.in_bursts ? "bursts" : "fraction"},
          {"median_error", error.law.median},
          {"worst_error", error.law.worst},
          {"correction", error.correction.empty() ? Json(nullptr) : Json(error.correction)},
          {"corrected_samples", error.corrected.samples},
          {"corrected_median_error", error.corrected.median},
          {"corrected_worst_error", error.corrected.worst}};
}

}  // namespace

Json errors_json(const std::vector<ErrorSummary>& errors) {
  Json json = Json::array();
  std::transform(errors.begin(), errors.end(), std::back_inserter(json), error_json);
  return json;
}

Json distances_json(const SamplesFile& measured, const SamplesFile& simulated) {
  Json distances = Json::array();
  for (const calibrate::DistanceSummary& distance : calibrate::distances(measured, simulated)) {
    distances.push_back({{"group", distance.group},
                         {"quantity", distance.quantity},
                         {"fitted_samples", distance.fitted.samples},
                         {"fitted_median", distance.fitted.median},
                         {"fitted_worst", distance.fitted.worst},
                         {"held_out_samples", distance.held_out.samples},
                         {"held_out_median", distance.held_out.median},
                         {"held_out_worst", distance.held_out.worst}});
  }
  return distances;
}

}  // namespace xstage::cli
