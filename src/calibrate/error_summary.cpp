#include "calibrate/error_summary.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string_view>
#include <utility>

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

ErrorStatistics statistics_of(const std::vector<double>& errors) {
  if (errors.empty()) {
    return {};
  }
  return {static_cast<int>(errors.size()), median(errors), *std::max_element(errors.begin(), errors.end())};
}

void ErrorCollector::add(const BurstExperiment& experiment, const Quantity& quantity, double error_of_law,
                         double error_of_corrected) {
  if (!std::isfinite(error_of_law)) {
    return;
  }
  const std::string group = group_name(experiment);
  auto found = std::find_if(series_.begin(), series_.end(),
                            [&](const Series& s) { return s.group == group && s.quantity.name == quantity.name; });
  if (found == series_.end()) {
    series_.push_back({group, quantity, {}, {}});
    found = std::prev(series_.end());
  }
  found->errors_of_law.push_back(error_of_law);
  if (std::isfinite(error_of_corrected)) {
    found->errors_of_corrected.push_back(error_of_corrected);
  }
}

std::vector<ErrorSummary> ErrorCollector::summaries() const {
  std::vector<ErrorSummary> summaries;
  for (const Series& series : series_) {
    ErrorSummary summary;
    summary.group = series.group;
    summary.quantity = series.quantity.name;
    summary.in_bursts = series.quantity.in_bursts;
    summary.of_the_law = series.quantity.of_the_law;
    summary.law = statistics_of(series.errors_of_law);
    summary.corrected = statistics_of(series.errors_of_corrected);
    if (summary.corrected.samples > 0) {
      summary.correction = series.quantity.correction;
    }
    summaries.push_back(std::move(summary));
  }
  return summaries;
}

}  // namespace xstage::calibrate
