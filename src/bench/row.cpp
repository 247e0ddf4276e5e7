#include "bench/row.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>
#include <stdexcept>

namespace xstage::bench {

namespace {

template <typename Rows>
auto* find_in(Rows& rows, std::string_view variant) {
  const auto found =
      std::find_if(rows.begin(), rows.end(), [&](const Row& row) { return row.head.variant == variant; });
  return found == rows.end() ? nullptr : &*found;
}

Json head_json(const RowHead& head) {
  Json json = head.key;
  json["variant"] = head.variant;
  return json;
}

/// An end of an interval as the file has it: null if it is not known.
double end_of(const Json& value) {
  return value.is_number() ? value.get<double>() : std::numeric_limits<double>::quiet_NaN();
}

std::string ratio_text(const PairedRatio& ratio) {
  return fmt::format("{:.3f} [{:.3f}, {:.3f}]", ratio.ratio, ratio.low, ratio.high);
}

void add_times(Json& json, const Times& times) {
  json["microseconds"] = rounded(median(times.trials_us));
  json["p5"] = rounded(percentile(times.trials_us, 0.05));
  json["p95"] = rounded(percentile(times.trials_us, 0.95));
  if (times.sustained_us) {
    json["sustained_us"] = rounded(*times.sustained_us);
  }
}

/// Adds the trials at the end of a row, where they do not disturb a reader.
void add_trials(Json& json, const Times& times) {
  json["trials"] = times.trials_us.size();
  Json& trials = json["trials_us"] = Json::array();
  for (const double trial : times.trials_us) {
    trials.push_back(rounded(trial));
  }
}

/// Text of a row in a table, besides its time.
std::string figures_text(const Row& row) {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  const auto add_number = [&](const char* name, auto&& words) {
    const auto found = row.figures.find(name);
    if (found != row.figures.end() && found->is_number()) {
      add(words(found->template get<double>()));
    }
  };
  add_number("tflops", [](double rate) { return fmt::format("{:.1f} TFLOP/s", rate); });
  add_number("gb_per_s", [](double rate) { return fmt::format("{:.1f} GB/s", rate); });
  add_number("drain_share", [](double share) { return fmt::format("{:.1f}% of R", 100 * share); });
  if (const auto ratio = ratio_of(row, "ratio")) {
    add(fmt::format("{} of {}", ratio_text(*ratio), row.figures.value("ratio_to", "")));
  }
  add_number("parts_ratio", [](double ratio) { return fmt::format("{:.3f} of all parts", ratio); });
  add_number("flags_to_fused", [](double ratio) { return fmt::format("{:.3f} of fused", ratio); });
  add_number("hiding", [](double share) { return fmt::format("hides {:.0f}%", 100 * share); });
  add_number("reached", [](double share) { return fmt::format("{:.0f}% of its ceiling", 100 * share); });
  add_number("predicted_us", [](double us) { return fmt::format("predicted {:.1f} us", us); });
  if (row.times.sustained_us) {
    add(fmt::format("sustained {:.1f} us", *row.times.sustained_us));
  }
  return text;
}

}  // namespace

double microseconds(const Row& row) { return median(row.times.trials_us); }

const Row* find_variant(const std::vector<Row>& rows_of_cell, std::string_view variant) {
  return find_in(rows_of_cell, variant);
}

Row* find_variant(std::vector<Row>& rows_of_cell, std::string_view variant) { return find_in(rows_of_cell, variant); }

std::optional<std::vector<double>> sum_of_trials(const std::vector<Row>& rows_of_cell,
                                                 const std::vector<std::string_view>& variants) {
  std::vector<double> sums;
  for (const std::string_view variant : variants) {
    const Row* row = find_variant(rows_of_cell, variant);
    if (row == nullptr) {
      return std::nullopt;
    }
    sums.resize(row->times.trials_us.size());
    for (std::size_t trial = 0; trial < sums.size(); ++trial) {
      sums[trial] += row->times.trials_us[trial];
    }
  }
  return sums;
}

void add_ratio(Row& row, const std::string& name, const PairedRatio& ratio) {
  row.figures[name] = number(ratio.ratio);
  row.figures[name + "_low"] = number(ratio.low);
  row.figures[name + "_high"] = number(ratio.high);
}

void add_ratio(Row& row, const std::string& name, const Row* reference) {
  if (reference != nullptr) {
    add_ratio(row, name, paired_ratio(row.times.trials_us, reference->times.trials_us));
  }
}

std::optional<PairedRatio> ratio_of(const Row& row, const std::string& name) {
  if (!row.figures.contains(name)) {
    return std::nullopt;
  }
  return PairedRatio{end_of(row.figures[name]), end_of(row.figures[name + "_low"]),
                     end_of(row.figures[name + "_high"])};
}

void add_tflops(Row& row, double operations) { row.figures["tflops"] = rounded(operations / microseconds(row) * 1e-6); }

void add_exchange_rate(Row& row, std::int64_t remote_bytes) {
  row.figures["remote_bytes"] = remote_bytes;
  row.figures["gb_per_s"] = rounded(static_cast<double>(remote_bytes) / microseconds(row) * 1e-3);
}

void add_ceiling(Row& row, double computing_us, double communicating_us) {
  const double longer = std::max(computing_us, communicating_us);
  row.figures["ceiling"] = number((computing_us + communicating_us) / longer);
  row.figures["reached"] = number(longer / microseconds(row));
}

Json row_json(const Row& row) {
  Json json = head_json(row.head);
  json["dtype"] = "bf16";
  add_times(json, row.times);
  json.update(row.figures);
  if (row.times.one_shot_us) {
    json["one_shot_us"] = rounded(*row.times.one_shot_us);
  }
  json["eager_us"] = rounded(row.times.eager_us);
  json["replays"] = row.times.replays;
  json["l2"] = row.l2;
  json.update(row.head.plans);
  if (row.largest_error) {
    json["largest_error_in_roundings"] = number(*row.largest_error);
  }
  add_trials(json, row.times);
  return json;
}

Json rows_json(const std::vector<Row>& rows) {
  std::set<std::string> keys;
  Json json = Json::array();
  for (const Row& row : rows) {
    const std::string key = head_json(row.head).dump();
    if (!keys.insert(key).second) {
      throw std::logic_error("two rows with the same key: " + key);
    }
    json.push_back(row_json(row));
  }
  return json;
}

Json list_json(const std::vector<CellHead>& cells) {
  Json rows = Json::array();
  for (const CellHead& cell : cells) {
    for (const RowHead& head : cell.rows) {
      Json row = head_json(head);
      row["dtype"] = "bf16";
      row.update(head.plans);
      rows.push_back(std::move(row));
    }
  }
  return {{"rows", std::move(rows)}};
}

std::string table_heading(int ranks) {
  return fmt::format("{:<42} {:<17} {:>10}  {}\n", fmt::format("cell, R={}", ranks), "variant", "us",
                     "rate, time against [95% interval]");
}

std::string table_lines(const Row& row) {
  std::string lines = fmt::format("{:<42} {:<17} {:>10.1f}  {}\n", row.head.shape, row.head.variant, microseconds(row),
                                  figures_text(row));
  if (!row.remark.empty()) {
    lines += fmt::format("  {}\n", row.remark);
  }
  return lines;
}

}  // namespace xstage::bench
