#include "calibrate/error_summary.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string_view>

#include <fmt/format.h>

#include "calibrate/estimators.hpp"
#include "node/words.hpp"

namespace xstage::calibrate {
namespace {

std::string_view words_for(BurstMode mode) {
  return mode == BurstMode::fixed_work ? std::string_view("fixed work") : name_of(mode);
}

}  // namespace

std::string group_name(const BurstExperiment& experiment) {
  std::string name =
      fmt::format("{}, {}, {}", words_of(experiment.path), words_for(experiment.mode), words_of(experiment.regime));
  if (experiment.direction == Direction::both_ways) {
    name += ", both ways";
  }
  if (experiment.filler != GapFiller::spin) {
    name += experiment.filler == GapFiller::memory_reads ? ", gap of memory reads" : ", gap of tensor-core work";
  }
  if (experiment.destinations.size() > 1) {
    name += fmt::format(", {} destinations", experiment.destinations.size());
  }
  return name;
}

void ErrorCollector::add(const BurstExperiment& experiment, const std::string& quantity, double relative_error) {
  add_to_series(experiment, quantity, relative_error, false);
}

void ErrorCollector::add_bursts(const BurstExperiment& experiment, const std::string& quantity,
                                double difference_in_bursts) {
  add_to_series(experiment, quantity, difference_in_bursts, true);
}

void ErrorCollector::add_to_series(const BurstExperiment& experiment, const std::string& quantity, double error,
                                   bool in_bursts) {
  if (!std::isfinite(error)) {
    return;
  }
  const std::string group = group_name(experiment);
  auto found = std::find_if(series_.begin(), series_.end(),
                            [&](const Series& s) { return s.group == group && s.quantity == quantity; });
  if (found == series_.end()) {
    series_.push_back({group, quantity, {}, in_bursts});
    found = std::prev(series_.end());
  }
  found->errors.push_back(error);
}

std::vector<ErrorSummary> ErrorCollector::summaries() const {
  std::vector<ErrorSummary> summaries;
  for (const Series& series : series_) {
    summaries.push_back({series.group, series.quantity, static_cast<int>(series.errors.size()), median(series.errors),
                         *std::max_element(series.errors.begin(), series.errors.end()), series.in_bursts});
  }
  return summaries;
}

}  // namespace xstage::calibrate
