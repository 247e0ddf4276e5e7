#include "bench/ulysses_row.hpp"

#include <fmt/format.h>

namespace xstage::bench {

double microseconds(const UlyssesRow& row) { return median(row.times.trials_us); }

double tflops(const UlyssesRow& row) {
  return operations_of_rank(row.cell, row.times.variant) / microseconds(row) * 1e-6;
}

void add_ratios(std::vector<UlyssesRow>& rows_of_cell) {
  const UlyssesRow* compute = find_variant(rows_of_cell, "compute");
  const UlyssesRow* fused = find_variant(rows_of_cell, "fused");
  for (UlyssesRow& row : rows_of_cell) {
    if (compute != nullptr && is_among_ranks(row.times.variant)) {
      row.ratio = paired_ratio(row.times.trials_us, compute->times.trials_us);
    }
    if (fused != nullptr && row.times.variant == "flags") {
      row.flags_to_fused = paired_ratio(row.times.trials_us, fused->times.trials_us);
    }
  }
}

std::string key_of(const UlyssesRow& row) {
  return fmt::format("{}|{}|{}", shape_text(row.cell), row.cell.ranks, row.times.variant);
}

Json row_json(const UlyssesRow& row) {
  Json json{{"tokens", row.cell.tokens}, {"heads", row.cell.heads}, {"head_dim", ulysses_head_dim},
            {"dtype", "bf16"},           {"ranks", row.cell.ranks}, {"variant", row.times.variant}};
  add_quantiles(json, row.times);
  json["tflops"] = rounded(tflops(row));
  if (row.ratio) {
    add_ratio(json, "ratio", *row.ratio);
    json["ratio_to"] = "compute";
  }
  if (row.flags_to_fused) {
    add_ratio(json, "flags_to_fused", *row.flags_to_fused);
  }
  add_call_fields(json, row);
  add_verdict_and_trials(json, row);
  return json;
}

Json rows_json(const std::vector<UlyssesRow>& rows) { return unique_rows(rows); }

}  // namespace xstage::bench
