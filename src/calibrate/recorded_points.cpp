#include "calibrate/recorded_points.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "node/words.hpp"
#include "xstage/error.hpp"

namespace xstage::calibrate {
namespace {

/// Half of the last digit that a message prints, and a little for rounding.
constexpr double printed_gap_us = 0.0050001;
constexpr std::size_t most_named = 5;

/// The plain case, which a point of the command line always is.
bool is_plain(const BurstExperiment& experiment) {
  return experiment.target == Target::remote && experiment.direction == Direction::one_way &&
         experiment.filler == GapFiller::spin && experiment.destinations.size() == 1;
}

/// An isolated burst has no gap to compare.
bool has_gap(const BurstExperiment& experiment) { return experiment.mode != BurstMode::isolated; }

/// Another pair, mode, path or regime is farther than any number: sizes and gaps count in octaves.
double distance(const BurstExperiment& one, const BurstExperiment& other) {
  const auto octaves = [](double left, double right) { return std::abs(std::log2(left / right)); };
  double sum = 0;
  sum += one.source != other.source || one.destinations != other.destinations ? 800 : 0;
  sum += one.mode != other.mode ? 400 : 0;
  sum += one.path != other.path ? 200 : 0;
  sum += one.regime != other.regime ? 100 : 0;
  sum += octaves(one.producers, other.producers);
  sum += octaves(static_cast<double>(one.bytes), static_cast<double>(other.bytes));
  if (has_gap(one)) {
    sum += octaves(1 + one.gap_us, 1 + other.gap_us);
  }
  return sum;
}

bool same(const BurstExperiment& one, const BurstExperiment& other) {
  return one.path == other.path && one.mode == other.mode && one.regime == other.regime && one.source == other.source &&
         one.destinations == other.destinations && one.producers == other.producers && one.bytes == other.bytes &&
         (!has_gap(one) || std::abs(one.gap_us - other.gap_us) <= printed_gap_us);
}

std::vector<std::string> nearest_points(const std::vector<BurstExperiment>& recorded, const BurstExperiment& point) {
  std::vector<BurstExperiment> candidates;
  std::copy_if(recorded.begin(), recorded.end(), std::back_inserter(candidates), [](const BurstExperiment& experiment) {
    return is_plain(experiment) && experiment.mode != BurstMode::isolated;
  });
  std::stable_sort(candidates.begin(), candidates.end(), [&](const BurstExperiment& one, const BurstExperiment& other) {
    return distance(point, one) < distance(point, other);
  });
  std::vector<std::string> named;
  for (const BurstExperiment& candidate : candidates) {
    std::string options = options_of(candidate);
    if (named.size() < most_named && std::find(named.begin(), named.end(), options) == named.end()) {
      named.push_back(std::move(options));
    }
  }
  return named;
}

}  // namespace

std::vector<BurstExperiment> same_point(const std::vector<BurstExperiment>& recorded, const BurstExperiment& point) {
  std::vector<BurstExperiment> found;
  std::copy_if(recorded.begin(), recorded.end(), std::back_inserter(found),
               [&](const BurstExperiment& experiment) { return is_plain(experiment) && same(point, experiment); });
  return found;
}

std::vector<BurstExperiment> require_point(const std::vector<BurstExperiment>& recorded, const BurstExperiment& point,
                                           const std::string& node) {
  std::vector<BurstExperiment> found = same_point(recorded, point);
  if (found.empty()) {
    const std::vector<std::string> nearest = nearest_points(recorded, point);
    throw InputError(fmt::format("the recorded samples of '{}' do not hold {}{}{}", node, options_of(point),
                                 nearest.empty() ? ", nor any point like it" : "; nearest first, they hold\n  ",
                                 fmt::join(nearest, "\n  ")));
  }
  return found;
}

std::string options_of(const BurstExperiment& point) {
  std::string text =
      fmt::format("--producers {} --bytes {} --gap-us {} --path {} --regime {}", point.producers, point.bytes,
                  std::round(point.gap_us * 100) / 100, name_of(point.path), words_of(point.regime));
  if (point.mode != BurstMode::periodic) {
    text += fmt::format(" --mode {}", name_of(point.mode));
  }
  if (point.source != 0 || point.destinations != std::vector<int>{1}) {
    text += fmt::format(" --source {} --destination {}", point.source, fmt::join(point.destinations, ";"));
  }
  return text;
}

}  // namespace xstage::calibrate
