#include "bench/attention_bound.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace xstage::bench {

namespace {

bool same_but_for_length(const AttentionCell& one, const AttentionCell& other) {
  return one.ranks == other.ranks && one.problem.heads == other.problem.heads &&
         one.problem.kv_heads == other.problem.kv_heads && one.problem.head_dim == other.problem.head_dim;
}

/// An interval that is not known (NaN) lies nowhere.
bool hides(const AttentionRow& row) { return row.ratio && row.ratio->high - 1 < most_residual; }

void add(HidingBound& bound, const AttentionRow& row) {
  bound.predicted_keys = std::max(bound.predicted_keys, *row.prediction->shortest_hidden_keys);
  const std::int64_t keys = row.cell.problem.keys;
  if (hides(row) && (!bound.found_keys || keys < *bound.found_keys)) {
    bound.found_keys = keys;
  }
}

}  // namespace

std::vector<HidingBound> hiding_bounds(const std::vector<AttentionRow>& rows) {
  std::vector<HidingBound> bounds;
  for (const AttentionRow& row : rows) {
    if (row.times.variant != "fused" || !row.prediction || !row.prediction->shortest_hidden_keys) {
      continue;
    }
    auto bound = std::find_if(bounds.begin(), bounds.end(),
                              [&](const HidingBound& other) { return same_but_for_length(other.cell, row.cell); });
    if (bound == bounds.end()) {
      bounds.push_back({row.cell, 0, std::nullopt});
      bound = bounds.end() - 1;
    }
    add(*bound, row);
  }
  return bounds;
}

Json bounds_json(const std::vector<HidingBound>& bounds) {
  Json json = Json::array();
  for (const HidingBound& bound : bounds) {
    json.push_back({{"heads", bound.cell.problem.heads},
                    {"kv_heads", bound.cell.problem.kv_heads},
                    {"head_dim", bound.cell.problem.head_dim},
                    {"ranks", bound.cell.ranks},
                    {"predicted_keys", bound.predicted_keys},
                    {"found_keys", bound.found_keys ? Json(*bound.found_keys) : Json(nullptr)},
                    {"most_residual", most_residual}});
  }
  return json;
}

std::string bound_text(const HidingBound& bound) {
  const attention::Problem& problem = bound.cell.problem;
  std::string heads = fmt::format("{} heads", problem.heads);
  if (problem.kv_heads != problem.heads) {
    heads += fmt::format(" ({} of keys)", problem.kv_heads);
  }
  const std::string found = bound.found_keys ? fmt::format("from {} keys on", *bound.found_keys) : "at no length";
  return fmt::format("{} of {}: stores are hidden from {:.0f} keys on, predicted; residual below {:.0f}% {}, measured",
                     heads, problem.head_dim, bound.predicted_keys, 100 * most_residual, found);
}

}  // namespace xstage::bench
