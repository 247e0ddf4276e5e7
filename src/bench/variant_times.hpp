#pragma once
// What all benchmarks time, whatever they measure.

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace xstage::bench {

/// What was timed of one variant, in microseconds: each trial is the maximum over ranks, for one call.
struct VariantTimes {
  std::string variant;
  int replays = 0;  // calls in one graph
  double eager_us = 0;
  std::vector<double> trials_us;
};

/// The row of a variant among those of one cell; null if it has none.
template <typename Row>
[[nodiscard]] const Row* find_variant(const std::vector<Row>& rows_of_cell, std::string_view variant) {
  const auto found = std::find_if(rows_of_cell.begin(), rows_of_cell.end(),
                                  [&](const Row& row) { return row.times.variant == variant; });
  return found == rows_of_cell.end() ? nullptr : &*found;
}

}  // namespace xstage::bench
