#include "bench/attention_row.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "bench/attention_span_comparison.hpp"
#include "bench/plan_options.hpp"

namespace xstage::bench {

namespace {

std::optional<PairedRatio> ratio_to(const AttentionRow& row, const AttentionRow* reference) {
  if (reference == nullptr) {
    return std::nullopt;
  }
  return paired_ratio(row.times.trials_us, reference->times.trials_us);
}

/// Computing and communicating each take the time that they take alone; no overlap is shorter than the longer of them.
double ceiling_of(const AttentionRow& attention, const AttentionRow& exchange) {
  return std::max(1.0, microseconds(exchange) / microseconds(attention));
}

}  // namespace

double microseconds(const AttentionRow& row) { return median(row.times.trials_us); }

std::optional<double> tflops(const AttentionRow& row) {
  if (row.times.variant == "all_to_all") {
    return std::nullopt;
  }
  return operations_of_rank(row.cell) / microseconds(row) * 1e-6;
}

std::optional<PairedRatio> hiding_ratio(const VariantTimes& attention, const VariantTimes& serial,
                                        const VariantTimes& fused) {
  const std::size_t rounds = std::min({attention.trials_us.size(), serial.trials_us.size(), fused.trials_us.size()});
  std::vector<double> communicating;
  std::vector<double> hidden;
  for (std::size_t round = 0; round < rounds; ++round) {
    communicating.push_back(serial.trials_us[round] - attention.trials_us[round]);
    const double residual = fused.trials_us[round] - attention.trials_us[round];
    // In a round in which communicating took no time nothing can have been hidden.
    hidden.push_back(communicating.back() > 0 ? 1 - residual / communicating.back()
                                              : -std::numeric_limits<double>::infinity());
  }
  if (rounds == 0) {
    return std::nullopt;
  }
  const PairedRatio alone = median_of_rounds(communicating);
  const double least = *std::min_element(communicating.begin(), communicating.end());
  if (!(alone.low > 0 || least > 0)) {
    return std::nullopt;
  }
  return median_of_rounds(std::move(hidden));
}

void add_ratios(std::vector<AttentionRow>& rows_of_cell) {
  const AttentionRow* attention = find_variant(rows_of_cell, "attention");
  const AttentionRow* exchange = find_variant(rows_of_cell, "all_to_all");
  const AttentionRow* serial = find_variant(rows_of_cell, "serial");
  for (AttentionRow& row : rows_of_cell) {
    if (row.times.variant != "attention" && row.times.variant != "all_to_all") {
      row.ratio = ratio_to(row, attention);
    }
    if (!is_fused(row.times.variant)) {
      continue;
    }
    row.serial_ratio = ratio_to(row, serial);
    row.twin_ratio = ratio_to(row, find_variant(rows_of_cell, "local_twin"));
    if (attention != nullptr && exchange != nullptr) {
      row.ceiling = ceiling_of(*attention, *exchange);
    }
    if (attention != nullptr && serial != nullptr) {
      row.hiding = hiding_ratio(attention->times, serial->times, row.times);
    }
  }
}

std::string key_of(const AttentionRow& row) {
  return fmt::format("{}|{}|{}", shape_text(row.cell), row.cell.ranks, row.times.variant);
}

namespace {

void add_comparisons(Json& json, const AttentionRow& row) {
  const std::array<std::pair<const char*, const std::optional<PairedRatio>&>, 4> ratios{
      {{"ratio", row.ratio},
       {"serial_ratio", row.serial_ratio},
       {"twin_ratio", row.twin_ratio},
       {"hiding", row.hiding}}};
  for (const auto& [name, ratio] : ratios) {
    if (ratio) {
      add_ratio(json, name, *ratio);
    }
  }
  if (row.ratio) {
    json["ratio_to"] = "attention";
  }
  if (row.ceiling) {
    json["ceiling"] = number(*row.ceiling);
  }
}

void add_prediction(Json& json, const AttentionPrediction& prediction) {
  json["predicted_us"] = rounded(prediction.call_us);
  Json& parts = json["prediction"];
  parts = {{"coupled_us", rounded(prediction.coupled_us)},
           {"main_loop_us", rounded(prediction.main_loop_us)},
           {"drain_us", rounded(prediction.drain_us)},
           {"stall_us", rounded(prediction.stall_us)},
           {"tail_us", rounded(prediction.tail_us)}};
  if (prediction.shortest_hidden_keys) {
    parts["shortest_hidden_keys"] = *prediction.shortest_hidden_keys;
  }
}

/// What an all-to-all is judged by.
void add_rate_of_exchange(Json& json, const AttentionRow& row) {
  const std::int64_t bytes = all_to_all::remote_bytes(exchange_of(row.cell), row.cell.ranks);
  json["remote_bytes"] = bytes;
  json["gb_per_s"] = rounded(static_cast<double>(bytes) / microseconds(row) * 1e-3);
}

}  // namespace

Json row_json(const AttentionRow& row) {
  const attention::Problem& problem = row.cell.problem;
  Json json{{"sequence", problem.rows},     {"heads", problem.heads},      {"kv_heads", problem.kv_heads},
            {"head_dim", problem.head_dim}, {"causal", problem.causal},    {"dtype", "bf16"},
            {"ranks", row.cell.ranks},      {"variant", row.times.variant}};
  add_quantiles(json, row.times);
  if (const auto rate = tflops(row)) {
    json["tflops"] = rounded(*rate);
  } else {
    add_rate_of_exchange(json, row);
  }
  add_comparisons(json, row);
  if (row.prediction) {
    add_prediction(json, *row.prediction);
  }
  if (row.spans) {
    json["spans"] = spans_json(row);
  }
  add_call_fields(json, row);
  if (row.plan) {
    json["plan"] = plan_json(*row.plan);
  }
  if (row.exchange_plan) {
    json["all_to_all_plan"] = plan_json(*row.exchange_plan);
  }
  add_verdict_and_trials(json, row);
  return json;
}

Json rows_json(const std::vector<AttentionRow>& rows) { return unique_rows(rows); }

}  // namespace xstage::bench
