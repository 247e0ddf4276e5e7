#pragma once
// Fields that the rows of all result files have in common.

#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/statistics.hpp"
#include "bench/variant_times.hpp"

namespace xstage::bench {

using Json = nlohmann::ordered_json;

/// Nanoseconds are finer than any event; the file stays half as large.
[[nodiscard]] double rounded(double microseconds);

/// Null for what is not a finite number.
[[nodiscard]] Json number(double value);

/// `microseconds`, `p5`, `p95` of the trials.
void add_quantiles(Json& row, const VariantTimes& times);

/// `NAME`, `NAME_low`, `NAME_high`.
void add_ratio(Json& row, const std::string& name, const PairedRatio& ratio);

/// `trials` and `trials_us`: at the end of a row, where they are not in the way of a reader.
void add_trials(Json& row, const VariantTimes& times);

/// Of rows that have single calls: `one_shot_us`, `eager_us`, `replays`, `l2`.
template <typename Row>
void add_call_fields(Json& json, const Row& row) {
  if (row.one_shot_us) {
    json["one_shot_us"] = rounded(*row.one_shot_us);
  }
  json["eager_us"] = rounded(row.times.eager_us);
  json["replays"] = row.times.replays;
  json["l2"] = row.l2;
}

/// The end of a row: `largest_error_in_roundings` if it was verified, then the trials.
template <typename Row>
void add_verdict_and_trials(Json& json, const Row& row) {
  if (row.largest_error) {
    json["largest_error_in_roundings"] = number(*row.largest_error);
  }
  add_trials(json, row.times);
}

/// All rows by their key_of and row_json. Throws std::logic_error if two have the same key.
template <typename Row>
[[nodiscard]] Json unique_rows(const std::vector<Row>& rows) {
  std::set<std::string> keys;
  Json json = Json::array();
  for (const Row& row : rows) {
    if (!keys.insert(key_of(row)).second) {
      throw std::logic_error("two rows with the same key: " + key_of(row));
    }
    json.push_back(row_json(row));
  }
  return json;
}

}  // namespace xstage::bench
