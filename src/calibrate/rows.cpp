#include "calibrate/rows.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>

namespace xstage::calibrate {
namespace {

template <typename Keep>
Rows filtered(const Rows& rows, Keep keep) {
  Rows kept;
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(kept), [&](const BurstSample* row) { return keep(*row); });
  return kept;
}

DevicePair pair_of(const BurstSample& row) { return {row.experiment.source, row.experiment.destinations.front()}; }

bool is_plain(const BurstSample& row) {
  const BurstExperiment& experiment = row.experiment;
  return !experiment.held_out && experiment.target == Target::remote && experiment.direction == Direction::one_way &&
         experiment.filler == GapFiller::spin && experiment.destinations.size() == 1;
}

/// The key with the highest count, the lowest such key on a tie: std::map iterates upwards, and only a higher count
/// replaces.
template <typename Key>
Key most_frequent(const std::map<Key, int>& counts) {
  return std::max_element(counts.begin(), counts.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
}

}  // namespace

double volume_bytes(const BurstSample& sample) {
  return static_cast<double>(sample.experiment.producers) * static_cast<double>(sample.experiment.bytes);
}

double rate_gb_per_s(const BurstSample& sample) {
  constexpr double bytes_per_us_in_gb_per_s = 1e-3;
  if (std::isfinite(sample.window_us) && sample.window_us > 0 && sample.stored_bytes > 0) {
    return sample.stored_bytes / sample.window_us * bytes_per_us_in_gb_per_s;
  }
  if (std::isfinite(sample.period_us) && sample.period_us > 0) {
    return volume_bytes(sample) / sample.period_us * bytes_per_us_in_gb_per_s;
  }
  return not_measured;
}

Rows plain_rows(const SamplesFile& samples) {
  Rows rows;
  for (const BurstSample& sample : samples.samples) {
    if (is_plain(sample)) {
      rows.push_back(&sample);
    }
  }
  return rows;
}

DevicePair reference_pair(const Rows& plain) {
  std::map<DevicePair, int> counts;
  for (const BurstSample* row : plain) {
    ++counts[pair_of(*row)];
  }
  return counts.empty() ? DevicePair{} : most_frequent(counts);
}

Rows rows_of_pair(const Rows& plain, const DevicePair& pair) {
  return filtered(plain, [&](const BurstSample& row) { return pair_of(row) == pair; });
}

Rows rows_of_path(const Rows& rows, StorePath path) {
  const Rows of_path = filtered(rows, [&](const BurstSample& row) { return row.experiment.path == path; });
  std::map<int, int> counts;
  for (const BurstSample* row : of_path) {
    ++counts[row->experiment.threads];
  }
  if (counts.empty()) {
    return {};
  }
  const int threads = most_frequent(counts);
  return filtered(of_path, [&](const BurstSample& row) { return row.experiment.threads == threads; });
}

Rows zero_gap_rows(const Rows& rows) {
  return filtered(rows, [](const BurstSample& row) {
    return row.experiment.mode == BurstMode::periodic && row.experiment.regime == Regime::free_running &&
           row.experiment.gap_us == 0;
  });
}

}  // namespace xstage::calibrate
