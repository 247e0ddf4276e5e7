#include "bench/moe_row.hpp"

#include <fmt/format.h>

#include <initializer_list>
#include <string_view>

namespace xstage::bench {

namespace {

/// Trial by trial, what these variants take together; none if one of them is not there.
std::optional<std::vector<double>> sum_of_trials(const std::vector<MoeRow>& rows,
                                                 std::initializer_list<std::string_view> variants) {
  std::vector<double> sums;
  for (const std::string_view variant : variants) {
    const MoeRow* row = find_variant(rows, variant);
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

}  // namespace

double microseconds(const MoeRow& row) { return median(row.times.trials_us); }

double tflops(const MoeRow& row) {
  return operations_of_rank(row.cell, row.times.variant, row.load) / microseconds(row) * 1e-6;
}

double gb_per_s(const MoeRow& row) {
  return static_cast<double>(remote_bytes(row.times.variant, row.load)) / microseconds(row) * 1e-3;
}

void add_ratios(std::vector<MoeRow>& rows_of_cell) {
  const auto computing = sum_of_trials(rows_of_cell, {"linear1", "linear2"});
  for (MoeRow& row : rows_of_cell) {
    if (!is_layer(row.times.variant)) {
      continue;
    }
    const char* const combine = row.times.variant == "unfused" ? "combine" : "combine_rows";
    const auto parts = sum_of_trials(rows_of_cell, {"dispatch", "linear1", "linear2", combine});
    if (computing) {
      row.ratio = paired_ratio(row.times.trials_us, *computing);
    }
    if (parts) {
      row.parts_ratio = paired_ratio(row.times.trials_us, *parts);
    }
  }
}

void add_drain_shares(std::vector<MoeRow>& rows_of_cell, double drain_gb_per_s) {
  for (MoeRow& row : rows_of_cell) {
    if (is_exchange(row.times.variant) && !is_local_twin(row.times.variant)) {
      row.drain_share = gb_per_s(row) / drain_gb_per_s;
    }
  }
}

std::string key_of(const MoeRow& row) {
  return fmt::format("{}|{}|{}|{}|{}|{}", row.cell.shape.name, row.cell.tokens, routing_name(row.cell.skew),
                     share_text(row.cell.remote_share), row.cell.ranks, row.times.variant);
}

Json row_json(const MoeRow& row) {
  Json json{{"shape", row.cell.shape.name},
            {"tokens", row.cell.tokens},
            {"routing", routing_name(row.cell.skew)},
            {"remote_share", share_text(row.cell.remote_share)},
            {"dtype", "bf16"},
            {"ranks", row.cell.ranks},
            {"variant", row.times.variant}};
  add_quantiles(json, row.times);
  if (is_exchange(row.times.variant)) {
    json["remote_bytes"] = remote_bytes(row.times.variant, row.load);
    json["gb_per_s"] = rounded(gb_per_s(row));
  } else {
    json["tflops"] = rounded(tflops(row));
  }
  json["rows"] = row.load.rows;
  if (row.drain_share) {
    json["drain_share"] = number(*row.drain_share);
  }
  if (row.ratio) {
    add_ratio(json, "ratio", *row.ratio);
    json["ratio_to"] = "linear1+linear2";
  }
  if (row.parts_ratio) {
    add_ratio(json, "parts_ratio", *row.parts_ratio);
  }
  add_call_fields(json, row);
  add_verdict_and_trials(json, row);
  return json;
}

Json rows_json(const std::vector<MoeRow>& rows) { return unique_rows(rows); }

}  // namespace xstage::bench
