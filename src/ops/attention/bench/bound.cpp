#include "ops/attention/bench/bound.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace xstage::bench {

namespace {

HidingBound bound_of(const Json& key) {
  return {key.at("heads"), key.at("kv_heads"), key.at("head_dim"), key.at("ranks"), 0, std::nullopt};
}

bool same_but_for_length(const HidingBound& one, const HidingBound& other) {
  return one.ranks == other.ranks && one.heads == other.heads && one.kv_heads == other.kv_heads &&
         one.head_dim == other.head_dim;
}

/// An unknown interval (NaN) hides nothing.
bool hides(const Row& row) {
  const std::optional<PairedRatio> ratio = ratio_of(row, "ratio");
  return ratio && ratio->high - 1 < most_residual;
}

void add(HidingBound& bound, const Row& row, double predicted_keys) {
  bound.predicted_keys = std::max(bound.predicted_keys, predicted_keys);
  const std::int64_t keys = row.head.key.at("sequence");
  if (hides(row) && (!bound.found_keys || keys < *bound.found_keys)) {
    bound.found_keys = keys;
  }
}

}  // namespace

std::vector<HidingBound> hiding_bounds(const std::vector<Row>& rows) {
  std::vector<HidingBound> bounds;
  for (const Row& row : rows) {
    const Json prediction = row.figures.value("prediction", Json::object());
    if (row.head.variant != "fused" || !prediction.contains("shortest_hidden_keys")) {
      continue;
    }
    const HidingBound of_row = bound_of(row.head.key);
    auto bound = std::find_if(bounds.begin(), bounds.end(),
                              [&](const HidingBound& other) { return same_but_for_length(of_row, other); });
    if (bound == bounds.end()) {
      bounds.push_back(of_row);
      bound = bounds.end() - 1;
    }
    add(*bound, row, prediction.at("shortest_hidden_keys"));
  }
  return bounds;
}

Json bounds_json(const std::vector<HidingBound>& bounds) {
  Json json = Json::array();
  for (const HidingBound& bound : bounds) {
    json.push_back({{"heads", bound.heads},
                    {"kv_heads", bound.kv_heads},
                    {"head_dim", bound.head_dim},
                    {"ranks", bound.ranks},
                    {"predicted_keys", bound.predicted_keys},
                    {"found_keys", bound.found_keys ? Json(*bound.found_keys) : Json(nullptr)},
                    {"most_residual", most_residual}});
  }
  return json;
}

std::string bound_text(const HidingBound& bound) {
  std::string heads = fmt::format("{} heads", bound.heads);
  if (bound.kv_heads != bound.heads) {
    heads += fmt::format(" ({} of keys)", bound.kv_heads);
  }
  const std::string found = bound.found_keys ? fmt::format("from {} keys on", *bound.found_keys) : "at no length";
  return fmt::format("{} of {}: stores are hidden from {:.0f} keys on, predicted; residual below {:.0f}% {}, measured",
                     heads, bound.head_dim, bound.predicted_keys, 100 * most_residual, found);
}

}  // namespace xstage::bench
