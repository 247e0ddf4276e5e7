#include "calibrate/node_distance.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <string_view>

#include "calibrate/error_summary.hpp"

namespace xstage::calibrate {
namespace {

struct ComparedQuantity {
  std::string_view name;
  double BurstSample::*value;
};

constexpr std::array<ComparedQuantity, 4> compared_quantities{{
    {"mean issue time", &BurstSample::issue_us},
    {"slowest producer's issue time", &BurstSample::issue_slowest_us},
    {"period", &BurstSample::period_us},
    {"time to visibility", &BurstSample::visible_us},
}};

struct Series {
  std::string group;
  std::string_view quantity;
  std::vector<double> fitted;
  std::vector<double> held_out;
};

void add(std::vector<Series>& all, const std::string& group, std::string_view quantity, bool held_out,
         double distance) {
  auto found = std::find_if(all.begin(), all.end(),
                            [&](const Series& series) { return series.group == group && series.quantity == quantity; });
  if (found == all.end()) {
    all.push_back({group, quantity, {}, {}});
    found = std::prev(all.end());
  }
  (held_out ? found->held_out : found->fitted).push_back(distance);
}

}  // namespace

std::string key_of(const BurstSample& sample) {
  const BurstExperiment& e = sample.experiment;
  return fmt::format("{} {} {} {} {} {}, device {} to {}, {} producers of {} threads, {} bytes, gap {} us, burst {}",
                     name_of(e.path), name_of(e.mode), name_of(e.regime), name_of(e.target), name_of(e.direction),
                     name_of(e.filler), e.source, fmt::join(e.destinations, " and "), e.producers, e.threads, e.bytes,
                     e.gap_us, sample.burst_index);
}

std::vector<DistanceSummary> distances(const SamplesFile& measured, const SamplesFile& simulated) {
  std::map<std::string, const BurstSample*> simulated_by_key;
  for (const BurstSample& sample : simulated.samples) {
    simulated_by_key.emplace(key_of(sample), &sample);
  }
  std::vector<Series> overall;
  std::vector<Series> by_group;
  for (const BurstSample& sample : measured.samples) {
    const BurstExperiment& experiment = sample.experiment;
    const auto found = simulated_by_key.find(key_of(sample));
    if (experiment.target != Target::remote || found == simulated_by_key.end()) {
      continue;
    }
    for (const ComparedQuantity& quantity : compared_quantities) {
      const double wanted = sample.*quantity.value;
      const double distance = std::abs(found->second->*quantity.value - wanted) / wanted;
      if (std::isfinite(distance)) {
        add(overall, "all", quantity.name, experiment.held_out, distance);
        add(by_group, group_name(experiment), quantity.name, experiment.held_out, distance);
      }
    }
  }
  std::vector<DistanceSummary> summaries;
  for (const std::vector<Series>* part : {&overall, &by_group}) {
    for (const Series& series : *part) {
      summaries.push_back(
          {series.group, std::string(series.quantity), statistics_of(series.fitted), statistics_of(series.held_out)});
    }
  }
  return summaries;
}

}  // namespace xstage::calibrate
