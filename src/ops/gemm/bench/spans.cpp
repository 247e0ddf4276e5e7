#include "ops/gemm/bench/spans.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "fabric/span_record.hpp"
#include "ops/gemm/layout.hpp"
#include "xstage/error.hpp"

namespace xstage::bench {

namespace {

using kernels::SpanKind;
using trace::Span;

/// Largest number of spans that one role records for a tile: a store warp waits for a peer, stores, and waits for the
/// arrival; a warpgroup multiplies and stages.
constexpr int most_spans_of_a_tile = 3;

int divide_up(int value, int by) { return (value + by - 1) / by; }

int pieces_of_push(const kernels::GatherParameters& gather) {
  if (gather.push == 0) {
    return 0;
  }
  return gather.row_chunks * gather.depth_chunks * (gather.chunk_rows / kernels::push_rows) *
         (gather.chunk_depth / kernels::gemm_tile_depth);
}

/// Which tiles go to peers.
class PeerTiles {
 public:
  PeerTiles(const gemm::Problem& problem, const Plan& plan, int world) {
    for (int rank = 0; rank < world; ++rank) {
      layouts_.push_back(gemm::make_layout(problem, plan, rank, world));
    }
  }

  [[nodiscard]] bool have(const Span& span) const {
    const gemm::Layout& layout = layouts_[static_cast<std::size_t>(span.rank)];
    if (span.tile < 0 || span.tile >= layout.schedule.cluster_tiles()) {
      throw InputError(fmt::format("a span of tile {} on rank {}: its schedule has {}", span.tile, span.rank,
                                   layout.schedule.cluster_tiles()));
    }
    // All CTAs of a cluster work in one region.
    const auto region = static_cast<std::size_t>(layout.schedule.tile(span.tile, 0).region);
    return layout.targets[region].remote != 0 && layout.targets[region].reduce == 0;
  }

 private:
  std::vector<gemm::Layout> layouts_;  // [rank]
};

/// Times at which the staging of each half tile began. A store warp turns to its next tile long before that is
/// multiplied, but storing can begin only with the staging.
class StagingStarts {
 public:
  explicit StagingStarts(const std::vector<Span>& spans) {
    for (const Span& span : spans) {
      if (is(span, SpanKind::stage_tile)) {
        begin_ns_.emplace(key(span), span.begin_ns);
      }
    }
  }

  /// Beginning of a store: the later of both times.
  [[nodiscard]] std::int64_t begin_of(const Span& store) const {
    const auto found = begin_ns_.find(key(store));
    return found == begin_ns_.end() ? store.begin_ns : std::clamp(found->second, store.begin_ns, store.end_ns);
  }

 private:
  using Key = std::tuple<int, int, int, int>;
  static Key key(const Span& span) { return {span.rank, span.block, half_of(span), span.tile}; }
  std::map<Key, std::int64_t> begin_ns_;
};

std::string text_of(const SpanTimes& times) { return times_text(times.mean_us, times.p95_us); }

}  // namespace

std::string why_no_spans(const Plan& plan) {
  if (plan.tile_columns != 128 && plan.tile_columns != 256) {
    return fmt::format("spans are recorded of tiles with 128 or 256 columns, and this plan's have {}",
                       plan.tile_columns);
  }
  return "";
}

int spans_of_a_role(const gemm::Problem& problem, const Plan& plan, int world) {
  const int clusters = plan.issuers / (plan.cluster_rows * plan.cluster_columns);
  int most = 0;
  for (int rank = 0; rank < world; ++rank) {
    const gemm::Layout layout = gemm::make_layout(problem, plan, rank, world);
    const int tiles = divide_up(layout.schedule.cluster_tiles(), clusters);
    most = std::max({most, most_spans_of_a_tile * tiles, divide_up(pieces_of_push(layout.gather), plan.issuers)});
  }
  return most + 1;  // a track without an empty place counts as full
}

GemmSpans sum_up(const trace::Trace& trace, const gemm::Problem& problem, const Plan& plan) {
  const std::vector<Span> spans = trace::on_common_clock(trace);
  const PeerTiles peer_tiles(problem, plan, static_cast<int>(trace.clocks.size()));
  const StagingStarts staging(spans);
  std::map<SpanKind, SpanDurations> of_kind;
  for (const Span& span : spans) {
    const auto kind = static_cast<SpanKind>(span.kind);
    const bool of_tile = kind == SpanKind::stage_tile || kind == SpanKind::store_tile;
    if (!of_tile || peer_tiles.have(span)) {
      of_kind[kind].add(kind == SpanKind::store_tile ? staging.begin_of(span) : span.begin_ns, span.end_ns);
    }
  }
  GemmSpans sums;
  sums.main_loop = of_kind[SpanKind::main_loop].times();
  sums.stage_tile = of_kind[SpanKind::stage_tile].times();
  sums.store_tile = of_kind[SpanKind::store_tile].times();
  sums.wait_partial = of_kind[SpanKind::wait_partial].times();
  sums.wait_chunk = of_kind[SpanKind::wait_chunk].times();
  sums.push_chunk = of_kind[SpanKind::push_chunk].times();
  return sums;
}

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

std::string comparison_text(const GemmSpans& spans, const std::optional<PredictedSpans>& predicted) {
  std::string text = "main loop " + (spans.main_loop ? text_of(*spans.main_loop) : "not recorded");
  if (predicted) {
    text += fmt::format(", predicted {:.2f}", predicted->main_loop_us);
  }
  text += "; staging for peers " + (spans.stage_tile ? text_of(*spans.stage_tile) : "none");
  if (predicted) {
    text += fmt::format(", predicted stall {:.2f}", predicted->stall_us);
  }
  return text;
}

}  // namespace xstage::bench
