#include <fmt/format.h>

#include <array>
#include <utility>

#include "bench/gemm_row.hpp"
#include "bench/plan_options.hpp"
#include "gemm/layout.hpp"
#include "xstage/node.hpp"

namespace xstage::bench {

namespace {

Json spans_json(const GemmSpans& spans, const std::optional<PredictedSpans>& predicted) {
  const std::array<std::pair<const char*, const std::optional<SpanTimes>&>, 6> kinds{
      {{"main_loop_us", spans.main_loop},
       {"stage_tile_us", spans.stage_tile},
       {"store_tile_us", spans.store_tile},
       {"wait_partial_us", spans.wait_partial},
       {"wait_chunk_us", spans.wait_chunk},
       {"push_chunk_us", spans.push_chunk}}};
  Json json{{"call_us", rounded(spans.call_us)}};
  for (const auto& [name, times] : kinds) {
    add_times(json, name, times);
  }
  if (predicted) {
    json["predicted"] = {{"main_loop_us", rounded(predicted->main_loop_us)},
                         {"stall_us", rounded(predicted->stall_us)}};
  }
  return json;
}

const GemmRow* faster(const GemmRow* one, const GemmRow* other) {
  if (one == nullptr || other == nullptr) {
    return one == nullptr ? other : one;
  }
  return microseconds(*one) <= microseconds(*other) ? one : other;
}

}  // namespace

double microseconds(const GemmRow& row) { return median(row.times.trials_us); }

double tflops(const GemmRow& row) { return operations_of_rank(row.cell) / microseconds(row) * 1e-6; }

void add_ratios(std::vector<GemmRow>& rows_of_cell) {
  const GemmRow* cublas = find_variant(rows_of_cell, "cublas");
  const GemmRow* judge = faster(cublas, find_variant(rows_of_cell, "alone"));
  for (GemmRow& row : rows_of_cell) {
    const GemmRow* reference = row.times.variant == "alone" ? cublas : judge;
    if (row.times.variant != "cublas" && reference != nullptr) {
      row.ratio_to = reference->times.variant;
      row.ratio = paired_ratio(row.times.trials_us, reference->times.trials_us);
    }
  }
}

std::string key_of(const GemmRow& row) {
  const gemm::Problem& problem = row.cell.problem;
  return fmt::format("{}|{}|{}|{}|{}|{}", gemm::operation_name(problem.operation), problem.m, problem.n, problem.k,
                     row.cell.ranks, row.times.variant);
}

Json row_json(const GemmRow& row) {
  const gemm::Problem& problem = row.cell.problem;
  Json json{{"op", gemm::operation_name(problem.operation)},
            {"m", problem.m},
            {"n", problem.n},
            {"k", problem.k},
            {"ranks", row.cell.ranks},
            {"variant", row.times.variant},
            {"dtype", "bf16"}};
  if (!problem.parts.empty()) {
    json["heads"] = heads_text(problem);
    json["head_dim"] = problem.head_dim;
  }
  add_quantiles(json, row.times);
  json["tflops"] = rounded(tflops(row));
  if (row.ratio) {
    add_ratio(json, "ratio", *row.ratio);
    json["ratio_to"] = row.ratio_to;
  }
  if (row.ceiling) {
    json["ceiling"] = number(*row.ceiling);
  }
  if (row.predicted_us) {
    json["predicted_us"] = rounded(*row.predicted_us);
  }
  if (row.spans) {
    json["spans"] = spans_json(*row.spans, row.predicted_spans);
  }
  json["eager_us"] = rounded(row.times.eager_us);
  json["replays"] = row.times.replays;
  json["l2"] = row.l2;
  if (row.plan) {
    json["plan"] = plan_json(*row.plan);
  }
  add_verdict_and_trials(json, row);
  return json;
}

Json rows_json(const std::vector<GemmRow>& rows) { return unique_rows(rows); }

}  // namespace xstage::bench
