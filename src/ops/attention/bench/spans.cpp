#include "ops/attention/bench/spans.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "ops/attention/bench/tile_spans.hpp"
#include "ops/attention/problem.hpp"
#include "ops/attention/shares.hpp"

namespace xstage::bench {

namespace {

using kernels::SpanKind;
using trace::Span;

constexpr double element_bytes = 2;

/// A warpgroup records two spans for a tile: it multiplies and stages.
constexpr int most_spans_of_a_tile = 2;

/// Factor by which one CTA may draw more tiles than the mean, if other CTAs have long ones.
constexpr int uneven_draws = 4;

// ---- durations
// -------------------------------------------------------------------------------------------------------

void add_main_loops(AttentionSpans& sums, const std::vector<TileSpan>& spans, bool causal) {
  SpanDurations whole;
  SpanDurations part;
  for (const TileSpan& of_tile : spans) {
    // Without rows a warpgroup only passes keys over.
    if (is(of_tile.span, SpanKind::main_loop) && (causal || of_tile.rows > 0)) {
      (of_tile.whole_tile ? whole : part).add(of_tile.span);
    }
  }
  sums.main_loop = whole.times();
  sums.main_loop_part = part.times();
}

/// To whom the rows go.
enum class Way { to_peers, staying, unknown };

Way way_of(const TileSpan& of_tile, bool causal) {
  if (causal) {
    return Way::unknown;
  }
  return of_tile.peer_rows > 0 ? Way::to_peers : Way::staying;
}

void add_stores(AttentionSpans& sums, const std::vector<TileSpan>& spans, bool causal) {
  std::map<std::pair<SpanKind, Way>, SpanDurations> durations;
  for (const TileSpan& of_tile : spans) {
    durations[{static_cast<SpanKind>(of_tile.span.kind), way_of(of_tile, causal)}].add(of_tile.span);
  }
  const auto times = [&](SpanKind kind, Way way) { return durations[{kind, way}].times(); };
  sums.stage_tile = times(SpanKind::stage_tile, Way::to_peers);
  sums.stage_own = times(SpanKind::stage_tile, Way::staying);
  sums.stage_all = times(SpanKind::stage_tile, Way::unknown);
  sums.store_tile = times(SpanKind::store_tile, Way::to_peers);
  sums.store_own = times(SpanKind::store_tile, Way::staying);
  sums.store_all = times(SpanKind::store_tile, Way::unknown);
}

double tail_us(const std::vector<TileSpan>& spans, bool causal) {
  std::map<int, std::int64_t> computed_ns;
  for (const TileSpan& of_tile : spans) {
    if (is(of_tile.span, SpanKind::main_loop)) {
      std::int64_t& end_ns = computed_ns[of_tile.span.rank];
      end_ns = std::max(end_ns, of_tile.span.end_ns);
    }
  }
  std::int64_t longest_ns = 0;
  for (const TileSpan& of_tile : spans) {
    if (is(of_tile.span, SpanKind::store_tile) && way_of(of_tile, causal) != Way::staying) {
      longest_ns = std::max(longest_ns, of_tile.span.end_ns - computed_ns[of_tile.span.rank]);
    }
  }
  return static_cast<double>(longest_ns) / 1000;
}

// ---- the wave with most bytes to peers
// -------------------------------------------------------------------------------

struct RankWave {
  int rank = 0;
  std::int64_t peer_rows = 0;
  std::set<int> blocks;  // CTAs that store
};

/// The wave is found by what was staged, since only one of the CTAs that share a tile stages it.
RankWave largest_wave(const std::vector<TileSpan>& spans) {
  std::map<std::pair<int, std::int64_t>, RankWave> waves;  // by rank and number
  for (const TileSpan& of_tile : spans) {
    if (is(of_tile.span, SpanKind::stage_tile) && of_tile.peer_rows_together > 0) {
      RankWave& wave = waves[{of_tile.span.rank, of_tile.wave}];
      wave.rank = of_tile.span.rank;
      wave.peer_rows += of_tile.peer_rows_together;
      wave.blocks.insert(of_tile.span.block);
    }
  }
  RankWave largest;
  for (const auto& [key, wave] : waves) {
    if (wave.peer_rows > largest.peer_rows) {
      largest = wave;
    }
  }
  return largest;
}

/// Largest number of the rank's CTAs with a store to a peer in flight at one moment.
int most_at_once(const std::vector<TileSpan>& spans, int rank) {
  std::vector<std::tuple<std::int64_t, int, int>> events;  // when, one more or less, CTA; ends before beginnings
  for (const TileSpan& of_tile : spans) {
    if (is(of_tile.span, SpanKind::store_tile) && of_tile.span.rank == rank && of_tile.peer_rows > 0) {
      events.emplace_back(of_tile.span.begin_ns, 1, of_tile.span.block);
      events.emplace_back(of_tile.span.end_ns, -1, of_tile.span.block);
    }
  }
  std::sort(events.begin(), events.end());
  std::map<int, int> in_flight;  // by CTA: number of its stores, up to two
  int storing = 0;
  int most = 0;
  for (const auto& [when_ns, change, block] : events) {
    int& stores = in_flight[block];
    storing -= stores > 0 ? 1 : 0;
    stores += change;
    storing += stores > 0 ? 1 : 0;
    most = std::max(most, storing);
  }
  return most;
}

std::optional<PeerWave> wave_of(const AttentionSpans& sums, const std::vector<TileSpan>& spans, int head_dim) {
  const RankWave largest = largest_wave(spans);
  const std::optional<SpanTimes>& gap = sums.main_loop ? sums.main_loop : sums.main_loop_part;
  if (largest.peer_rows == 0 || !gap) {
    return std::nullopt;
  }
  PeerWave wave;
  wave.bytes = static_cast<double>(largest.peer_rows) * head_dim * element_bytes;
  wave.producers = static_cast<int>(largest.blocks.size());
  // CTAs that are in different waves may store at one moment; of one wave they cannot be more than it has.
  wave.coincident_producers = std::clamp(most_at_once(spans, largest.rank), 1, wave.producers);
  wave.gap_us = gap->median_us;
  return wave;
}

}  // namespace

int spans_of_a_role(const attention::Problem& problem, const attention::Plan& plan, int world) {
  const int tiles = attention::make_schedule(problem, 0, world).tiles();  // of any rank
  const int each = (tiles + plan.issuers - 1) / plan.issuers;
  const int most = problem.causal ? std::min(tiles, uneven_draws * each) : each + schedule::shares_each;
  return most_spans_of_a_tile * most + 1;  // a track without an empty place counts as full
}

trace::Trace last_call(trace::Trace trace) {
  // The first span of each CTA is its first main loop, of the last call unless the CTA had nothing to do in it. In the
  // last call all first main loops begin together, and none ends before the others have begun; those of earlier calls
  // end before.
  std::map<int, std::int64_t> begun_ns;  // by rank
  std::set<std::tuple<int, int, int>> tracks;
  for (const Span& span : trace.spans) {
    if (tracks.emplace(span.rank, span.block, span.role).second && is(span, SpanKind::main_loop)) {
      const auto [latest, is_first] = begun_ns.emplace(span.rank, span.begin_ns);
      latest->second = std::max(latest->second, span.begin_ns);
    }
  }
  std::erase_if(trace.spans, [&](const Span& span) {
    const auto begun = begun_ns.find(span.rank);
    return begun != begun_ns.end() && span.end_ns < begun->second;
  });
  return trace;
}

AttentionSpans sum_up(const trace::Trace& trace, const attention::Problem& problem, const attention::Plan& plan) {
  const std::vector<TileSpan> spans = tile_spans(trace, problem, plan);
  AttentionSpans sums;
  add_main_loops(sums, spans, problem.causal);
  add_stores(sums, spans, problem.causal);
  sums.tail_us = tail_us(spans, problem.causal);
  if (!problem.causal) {
    sums.wave = wave_of(sums, spans, problem.head_dim);
  }
  return sums;
}

}  // namespace xstage::bench
