// Spans of made-up traces. The attention has four row tiles of 192 rows for each of a rank's two heads, which four CTAs
// compute in two waves: rank 0 begins with row tiles 2 and 3 of either head, which are the peer's, and ends with 0 and
// 1.

#include "ops/attention/bench/spans.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "ops/attention/bench/tile_spans.hpp"
#include "ops/attention/problem.hpp"
#include "unit/audit_platform.hpp"
#include "xstage/error.hpp"

namespace xstage::bench::bench_spans_test {
namespace {

using kernels::SpanKind;
using kernels::SpanRole;
using testing::HasSubstr;
using trace::Span;

attention::Problem problem_of(std::int64_t rows, int heads) {
  attention::Problem problem;
  problem.rows = rows;
  problem.keys = rows;
  problem.heads = heads;
  problem.kv_heads = heads;
  problem.destination = attention::Destination::to_owners;
  return problem;
}

attention::Plan plan_of(int issuers, int split = 0) {
  attention::Plan plan;
  plan.issuers = issuers;
  plan.split = split;
  return plan;
}

const attention::Problem two_waves = problem_of(768, 4);

trace::Trace trace_of_two(std::vector<Span> spans) {
  trace::Trace trace;
  trace.clocks = {{0, 0, 0}, {1, 5000, 0}};
  trace.spans = std::move(spans);
  return trace;
}

/// What one warpgroup and its store warp record of a tile.
struct HalfTile {
  int rank = 0;
  int block = 0;
  int half = 0;
  int head = 0;
  std::int64_t begin_ns = 0;
  std::int64_t main_loop_ns = 10000;
  std::int64_t stage_ns = 1000;
  std::int64_t store_ns = 2000;
};

Span span_of(const HalfTile& tile, SpanKind kind, std::int64_t begin_ns, std::int64_t length_ns) {
  const bool stores = kind == SpanKind::store_tile;
  const SpanRole role = tile.half == 0 ? (stores ? SpanRole::store_first : SpanRole::multiply_first)
                                       : (stores ? SpanRole::store_second : SpanRole::multiply_second);
  return {tile.rank, tile.block, static_cast<int>(role), static_cast<int>(kind),
          tile.head, begin_ns,   begin_ns + length_ns};
}

void record(std::vector<Span>& spans, const HalfTile& tile) {
  const std::int64_t staging_ns = tile.begin_ns + tile.main_loop_ns;
  // The store warp may be seen to begin with the staging: clocks tick slowly.
  spans.push_back(span_of(tile, SpanKind::store_tile, staging_ns, tile.store_ns));
  spans.push_back(span_of(tile, SpanKind::main_loop, tile.begin_ns, tile.main_loop_ns));
  spans.push_back(span_of(tile, SpanKind::stage_tile, staging_ns, tile.stage_ns));
}

/// Both waves of rank 0. Stores take 3 us to the peer and 1 us to own memory.
std::vector<Span> spans_of_two_waves() {
  std::vector<Span> spans;
  for (int block = 0; block < 4; ++block) {
    for (int half = 0; half < 2; ++half) {
      const int head = block / 2;
      record(spans, {0, block, half, head, 0, 10000, 1500, 3000});
      record(spans, {0, block, half, head, 12000, 10000, 500, 1000});
    }
  }
  return spans;
}

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

std::string error_of_trace(std::vector<Span> spans) {
  return error_of([&] { static_cast<void>(sum_up(trace_of_two(std::move(spans)), two_waves, plan_of(4))); });
}

TEST(BenchAttentionSpans, StoresToPeersAreToldFromOwnOnes) {
  const AttentionSpans sums = sum_up(trace_of_two(spans_of_two_waves()), two_waves, plan_of(4));
  ASSERT_TRUE(sums.main_loop && sums.stage_tile && sums.stage_own && sums.store_tile && sums.store_own);
  EXPECT_DOUBLE_EQ(sums.main_loop->median_us, 10);
  EXPECT_DOUBLE_EQ(sums.stage_tile->median_us, 1.5);
  EXPECT_DOUBLE_EQ(sums.stage_own->median_us, 0.5);
  EXPECT_DOUBLE_EQ(sums.store_tile->median_us, 3);
  EXPECT_DOUBLE_EQ(sums.store_own->p95_us, 1);
  EXPECT_FALSE(sums.main_loop_part || sums.stage_all || sums.store_all);
}

TEST(BenchAttentionSpans, DurationsHaveMeanMedianAndPercentile) {
  std::vector<Span> spans;
  for (int block = 0; block < 3; ++block) {
    record(spans, {0, block, 0, block / 2, 0, 10000 + 10000 * (block / 2)});  // 10, 10 and 20 us
  }
  const AttentionSpans sums = sum_up(trace_of_two(spans), two_waves, plan_of(4));
  EXPECT_NEAR(sums.main_loop->mean_us, 40.0 / 3, 1e-9);
  EXPECT_DOUBLE_EQ(sums.main_loop->median_us, 10);
  EXPECT_DOUBLE_EQ(sums.main_loop->p95_us, 19);
}

TEST(BenchAttentionSpans, WaveWithMostBytesToPeersIsMeasured) {
  const AttentionSpans sums = sum_up(trace_of_two(spans_of_two_waves()), two_waves, plan_of(4));
  ASSERT_TRUE(sums.wave);
  EXPECT_DOUBLE_EQ(sums.wave->bytes, 4 * 192 * 256.0);  // the third warpgroup is counted too
  EXPECT_EQ(sums.wave->producers, 4);
  EXPECT_EQ(sums.wave->coincident_producers, 4);
  EXPECT_DOUBLE_EQ(sums.wave->gap_us, 10);
}

/// Rank 0's CTAs store one after the other, both warps of each at once; rank 1 has one CTA.
TEST(BenchAttentionSpans, StaggeredStoresDoNotCoincide) {
  std::vector<Span> spans;
  for (int block = 0; block < 3; ++block) {
    record(spans, {0, block, 0, block / 2, 3000 * block, 10000, 1000, 3000});
    record(spans, {0, block, 1, block / 2, 3000 * block, 10000, 1000, 3000});
  }
  record(spans, {1, 0, 0, 0, 0, 10000, 1000, 90000});
  const AttentionSpans sums = sum_up(trace_of_two(spans), two_waves, plan_of(4));
  ASSERT_TRUE(sums.wave);
  EXPECT_EQ(sums.wave->producers, 3);
  EXPECT_EQ(sums.wave->coincident_producers, 1);
  EXPECT_DOUBLE_EQ(sums.wave->bytes, 3 * 192 * 256.0);
}

TEST(BenchAttentionSpans, TailIsWhatIsStoredAfterTheLastMainLoop) {
  std::vector<Span> spans = spans_of_two_waves();
  EXPECT_DOUBLE_EQ(sum_up(trace_of_two(spans), two_waves, plan_of(4)).tail_us, 0);  // own stores are no tail
  record(spans, {1, 0, 0, 0, 0, 40000, 1000, 7000});
  EXPECT_DOUBLE_EQ(sum_up(trace_of_two(spans), two_waves, plan_of(4)).tail_us, 7);
}

/// 400 rows are three row tiles, rank 0 owns 200 of them: row tile 1 has rows of both, row tile 2 has 16 rows.
TEST(BenchAttentionSpans, RowsAreCountedWhereTilesCrossABoundary) {
  const attention::Problem problem = problem_of(400, 2);
  std::vector<Span> spans;
  record(spans, {0, 0, 0, 0, 0});
  record(spans, {0, 0, 0, 0, 20000});
  record(spans, {0, 0, 0, 0, 40000});
  record(spans, {0, 0, 1, 0, 0});
  spans.push_back(span_of({0, 0, 1, 0}, SpanKind::main_loop, 20000, 9000));  // no rows: nothing is staged
  record(spans, {0, 0, 1, 0, 40000});
  const std::vector<TileSpan> assigned = tile_spans(trace_of_two(spans), problem, plan_of(1));
  ASSERT_EQ(assigned.size(), spans.size());
  const auto staged = [&](int half, std::int64_t wave) {
    for (const TileSpan& of_tile : assigned) {
      if (is(of_tile.span, SpanKind::stage_tile) && half_of(of_tile.span) == half && of_tile.wave == wave) {
        return of_tile;
      }
    }
    return TileSpan{};
  };
  EXPECT_EQ(staged(0, 0).peer_rows, 56);  // rows 192 to 255
  EXPECT_EQ(staged(1, 0).peer_rows, 64);
  EXPECT_EQ(staged(1, 0).peer_rows_together, 128);
  EXPECT_EQ(staged(0, 1).rows, 16);
  EXPECT_EQ(staged(0, 1).peer_rows, 16);
  EXPECT_EQ(staged(1, 2).rows, 64);
  EXPECT_EQ(staged(1, 2).peer_rows_together, 0);
  const AttentionSpans sums = sum_up(trace_of_two(spans), problem, plan_of(1));
  EXPECT_DOUBLE_EQ(sums.wave->bytes, 184 * 256.0);
  EXPECT_DOUBLE_EQ(sums.main_loop->mean_us, 10);  // not the 9 us of a warpgroup without rows
}

/// Three tiles on two CTAs, the last one shared: who ends last, here CTA 1, stages it.
TEST(BenchAttentionSpans, PartsOfATileAreNoWholeMainLoops) {
  const attention::Problem problem = problem_of(576, 2);
  std::vector<Span> spans;
  record(spans, {0, 0, 0, 0, 0});
  record(spans, {0, 1, 0, 0, 0});
  spans.push_back(span_of({0, 0, 0, 0}, SpanKind::main_loop, 20000, 5000));
  record(spans, {0, 1, 0, 0, 20000, 6000});
  const AttentionSpans sums = sum_up(trace_of_two(spans), problem, plan_of(2, 1));
  ASSERT_TRUE(sums.main_loop && sums.main_loop_part);
  EXPECT_DOUBLE_EQ(sums.main_loop->mean_us, 10);
  EXPECT_DOUBLE_EQ(sums.main_loop_part->mean_us, 5.5);
  EXPECT_DOUBLE_EQ(sums.wave->gap_us, 10);
  // A CTA has one share of this tile.
  spans.push_back(span_of({0, 0, 0, 0}, SpanKind::main_loop, 40000, 5000));
  EXPECT_THAT(error_of([&] { static_cast<void>(sum_up(trace_of_two(spans), problem, plan_of(2, 1))); }),
              HasSubstr("rank 0, CTA 0: its schedule has 2 there"));
}

/// All tiles as the schedule deals them out, none of them split, have the V that the audit predicts. It is of rank 0,
/// which takes as long as rank 1.
TEST(BenchAttentionSpans, MeasuredVolumeIsThatOfTheAudit) {
  constexpr int multiprocessors = 132;
  const attention::Problem problem = problem_of(16384, 24);
  attention::Plan plan;
  plan.split = 0;
  plan = attention::complete_plan(problem, plan, 2, multiprocessors);
  std::vector<Span> spans;
  const schedule::AttentionSchedule schedule = attention::make_schedule(problem, 0, 2);
  for (int index = 0; index < schedule.tiles(); ++index) {
    const schedule::AttentionTile tile = schedule.tile(index);
    for (int half = 0; half < 2; ++half) {
      const HalfTile of_half{0, index % multiprocessors, half, tile.head, 12000 * (index / multiprocessors)};
      if (tile.row + 64 * half < problem.rows) {
        record(spans, of_half);
      } else {
        spans.push_back(span_of(of_half, SpanKind::main_loop, of_half.begin_ns, 9000));
      }
    }
  }
  Platform platform = round_platform();
  platform.paths[0].path = StorePath::bulk;
  const PlanAudit audit = attention::audit_plan(problem, plan, 2, multiprocessors, platform, 700);
  const AttentionSpans sums = sum_up(trace_of_two(spans), problem, plan);
  ASSERT_TRUE(sums.wave);
  EXPECT_DOUBLE_EQ(sums.wave->bytes, audit.remote_bytes);
  EXPECT_EQ(sums.wave->producers, 132);
}

TEST(BenchAttentionSpans, DrawnTilesGoToAnyone) {
  attention::Problem causal = two_waves;
  causal.causal = true;
  const AttentionSpans sums = sum_up(trace_of_two(spans_of_two_waves()), causal, plan_of(4));
  ASSERT_TRUE(sums.main_loop && sums.stage_all && sums.store_all);
  EXPECT_DOUBLE_EQ(sums.stage_all->mean_us, 1);
  EXPECT_DOUBLE_EQ(sums.store_all->mean_us, 2);
  EXPECT_DOUBLE_EQ(sums.tail_us, 1);
  EXPECT_FALSE(sums.stage_tile || sums.stage_own || sums.store_tile || sums.store_own || sums.wave);
}

TEST(BenchAttentionSpans, TraceOfAnotherProblemIsRefused) {
  std::vector<Span> head;
  record(head, {0, 0, 0, 1, 0});
  EXPECT_THAT(error_of_trace(head), HasSubstr("head 1 on rank 0, CTA 0: its schedule has head 0 there"));
  std::vector<Span> block;
  record(block, {0, 4, 0, 0, 0});
  EXPECT_THAT(error_of_trace(block), HasSubstr("rank 0, CTA 4: its schedule has 0 there"));
  EXPECT_THAT(error_of_trace({span_of({}, SpanKind::stage_tile, 0, 1000)}),
              HasSubstr("stages before its first main loop"));
  EXPECT_THAT(error_of_trace({span_of({}, SpanKind::store_tile, 0, 1000)}), HasSubstr("stores what it has not staged"));
  EXPECT_EQ(error_of_trace({}), "");
}

TEST(BenchAttentionSpans, NothingRecordedIsNothing) {
  const AttentionSpans sums = sum_up(trace_of_two({}), two_waves, plan_of(4));
  EXPECT_FALSE(sums.main_loop || sums.store_tile || sums.store_own || sums.wave);
  EXPECT_EQ(sums.tail_us, 0);
}

/// CTA 1 computed two tiles in the call before the last one and one tile in the last one; CTA 2 computed none there.
TEST(BenchAttentionSpans, SpansOfEarlierCallsAreLeftOut) {
  std::vector<Span> last;
  record(last, {0, 0, 0, 0, 100000});
  record(last, {0, 0, 0, 0, 112000});
  record(last, {0, 1, 0, 0, 101000});
  record(last, {1, 0, 0, 0, 50000});  // by its own clock
  std::vector<Span> all = last;
  record(all, {0, 1, 0, 0, 62000});
  record(all, {0, 2, 0, 0, 50000});
  const trace::Trace kept = last_call(trace_of_two(all));
  ASSERT_EQ(kept.spans.size(), last.size());
  for (std::size_t index = 0; index < last.size(); ++index) {
    EXPECT_EQ(kept.spans[index].begin_ns, last[index].begin_ns);
    EXPECT_EQ(kept.spans[index].rank, last[index].rank);
  }
  EXPECT_EQ(kept.clocks.size(), 2U);
}

TEST(BenchAttentionSpans, RoomIsForTheCtaThatHasMost) {
  const attention::Problem problem = problem_of(16384, 24);  // 86 row tiles of 12 heads: 7.8 for each of 132
  EXPECT_EQ(spans_of_a_role(problem, plan_of(132, 1), 2), 2 * (8 + 2) + 1);
  attention::Problem causal = problem;
  causal.causal = true;
  EXPECT_EQ(spans_of_a_role(causal, plan_of(132), 2), 2 * 4 * 8 + 1);
  causal.rows = 192;
  EXPECT_EQ(spans_of_a_role(causal, plan_of(132), 2), 2 * 4 + 1);
}

}  // namespace
}  // namespace xstage::bench::bench_spans_test
