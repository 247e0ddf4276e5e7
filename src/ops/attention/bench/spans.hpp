#pragma once
// Sums up what an instrumented call of an attention recorded, for its row and for comparison with the model. Host code
// without CUDA.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/span_times.hpp"
#include "xstage/attention.hpp"
#include "xstage/audit.hpp"

namespace xstage::bench {

/// What the CTAs of one rank store to peers after their n-th tile, for the rank and n where it is most: a workload in
/// the terms of xstage/audit.hpp.
struct PeerWave {
  double bytes = 0;              // V
  int producers = 0;             // K: CTAs that store to a peer after that tile
  int coincident_producers = 0;  // K_act: largest number of them whose stores were in flight at one moment of the call
  double gap_us = 0;             // G: median main loop, of whole tiles if there are any
};

/// The design test, of the measured wave.
struct PeerWaveVerdict {
  Verdict free_running = Verdict::cannot_decide;
  Verdict aligned = Verdict::cannot_decide;
  double free_running_stall_us = 0;  // a tile; NaN: not known
  double aligned_stall_us = 0;
};

/// Kinds without spans are absent. One span of staging or storing covers 64 rows of one head. It counts as *for peers*
/// if one of these rows belongs to a peer (in a local twin: would belong to a peer in the fused call). Two of a CTA's
/// three warpgroups are recorded; where bytes are counted, the third one counts like the second.
struct AttentionSpans {
  double call_us = 0;                       // one instrumented call: what the instrument costs, beside the timed ones
  std::optional<SpanTimes> main_loop;       // all keys of a whole tile
  std::optional<SpanTimes> main_loop_part;  // of a tile that several CTAs share
  std::optional<SpanTimes> stage_tile;      // for peers: results to shared memory, back-pressure included
  std::optional<SpanTimes> stage_own;       // the same of rows that stay
  std::optional<SpanTimes> store_tile;      // for peers: from then on until their staging is free again
  std::optional<SpanTimes> store_own;       // the same of rows that stay
  /// Causal: the spans do not say which tile a CTA has drawn, so that these are of all rows.
  std::optional<SpanTimes> stage_all;
  std::optional<SpanTimes> store_all;
  double tail_us = 0;            // stores (for peers) after the last main loop, of the rank where that is longest
  std::optional<PeerWave> wave;  // none of causal tiles, nor without peers
  /// Median to that of the local twin, of what goes to peers (causal: of all).
  std::optional<double> stage_to_twin;
  std::optional<double> store_to_twin;
  /// --platform, of the measured wave.
  std::optional<PeerWaveVerdict> verdict;
};

/// Number of spans that each role of each CTA needs for one call. The plan is complete.
[[nodiscard]] int spans_of_a_role(const attention::Problem& problem, const attention::Plan& plan, int world);

/// Removes the spans of earlier calls from a trace as it was read. A call does not overwrite them where a CTA records
/// less than in the call before: tiles are drawn, and it is chance which CTA finishes the last part of a shared tile.
[[nodiscard]] trace::Trace last_call(trace::Trace trace);

/// Sums up the spans of one call. Throws InputError if the trace is not one of this problem and plan. Values that need
/// other rows or a platform stay empty, and `call_us` stays 0.
[[nodiscard]] AttentionSpans sum_up(const trace::Trace& trace, const attention::Problem& problem,
                                    const attention::Plan& plan);

}  // namespace xstage::bench
