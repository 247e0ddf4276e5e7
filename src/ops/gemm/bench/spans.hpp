#pragma once
// Sums up what an instrumented call of a fused operation recorded, for its row and for comparison with the model. Host
// code without CUDA.

#include <optional>
#include <string>

#include "bench/span_times.hpp"
#include "xstage/gemm.hpp"
#include "xstage/trace.hpp"

namespace xstage::bench {

/// Kinds without spans are absent. Tiles *for peers* are those that go to a peer without a wait for its partial sums,
/// so that only stores can delay their staging.
struct GemmSpans {
  double call_us = 0;  // one instrumented call: what the instrument costs, beside the timed ones
  std::optional<SpanTimes> main_loop;
  std::optional<SpanTimes> stage_tile;    // for peers: accumulators to shared memory, back-pressure included
  std::optional<SpanTimes> store_tile;    // for peers: from the beginning of the staging
  std::optional<SpanTimes> wait_partial;  // for a peer's partial sums
  std::optional<SpanTimes> wait_chunk;    // for gathered rows
  std::optional<SpanTimes> push_chunk;    // one piece of the own shard to all peers
};

/// Predictions of gemm::audit_plan for the same quantities.
struct PredictedSpans {
  double main_loop_us = 0;
  double stall_us = 0;  // of a warpgroup at the boundary with most bytes to peers
};

/// Why calls with this plan are not recorded; empty if they are.
[[nodiscard]] std::string why_no_spans(const Plan& plan);

/// Number of spans that each role of each CTA needs for one call. The plan is complete.
[[nodiscard]] int spans_of_a_role(const gemm::Problem& problem, const Plan& plan, int world);

/// Throws InputError if the trace is not one of this problem and plan. `call_us` stays 0.
[[nodiscard]] GemmSpans sum_up(const trace::Trace& trace, const gemm::Problem& problem, const Plan& plan);

/// The field `spans` of a row.
[[nodiscard]] Json spans_json(const GemmSpans& spans, const std::optional<PredictedSpans>& predicted);

/// Measured against predicted, in one line.
[[nodiscard]] std::string comparison_text(const GemmSpans& spans, const std::optional<PredictedSpans>& predicted);

}  // namespace xstage::bench
