// Spans of made-up traces. The problem has 8 cluster tiles of 256 x 256: on either rank of a reduce-scatter tiles 0 to
// 3 are the peer's, 4 to 7 its own.

#include "ops/gemm/bench/spans.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "fabric/span_record.hpp"
#include "ops/gemm/layout.hpp"
#include "xstage/error.hpp"

namespace xstage::bench::bench_spans_test {
namespace {

using gemm::Operation;
using kernels::SpanKind;
using kernels::SpanRole;
using testing::HasSubstr;

constexpr int multiprocessors = 132;

gemm::Problem problem_of(Operation operation, std::int64_t m, std::int64_t n, std::int64_t k) {
  gemm::Problem problem;
  problem.operation = operation;
  problem.m = m;
  problem.n = n;
  problem.k = k;
  return problem;
}

Plan plan_for(const gemm::Problem& problem) {
  Plan plan;
  plan.tile_columns = 256;
  return gemm::complete_plan(problem, plan, 2, multiprocessors);
}

const gemm::Problem reduce_scatter = problem_of(Operation::reduce_scatter, 1024, 512, 512);

trace::Trace trace_of_two(std::vector<trace::Span> spans) {
  trace::Trace trace;
  trace.clocks = {{0, 0, 0}, {1, 5000, 0}};
  trace.spans = std::move(spans);
  return trace;
}

trace::Span span_of(int rank, SpanRole role, SpanKind kind, int tile, std::int64_t begin_ns, std::int64_t end_ns) {
  return {rank, 0, static_cast<int>(role), static_cast<int>(kind), tile, begin_ns, end_ns};
}

GemmSpans sums_of(std::vector<trace::Span> spans) {
  return sum_up(trace_of_two(std::move(spans)), reduce_scatter, plan_for(reduce_scatter));
}

TEST(BenchSpans, RanksAndWarpgroupsAreSummedUpTogether) {
  const GemmSpans sums = sums_of({span_of(0, SpanRole::multiply_first, SpanKind::main_loop, 0, 0, 20000),
                                  span_of(0, SpanRole::multiply_second, SpanKind::main_loop, 0, 0, 24000),
                                  span_of(1, SpanRole::multiply_first, SpanKind::main_loop, 4, 5000, 33000)});
  ASSERT_TRUE(sums.main_loop);
  EXPECT_DOUBLE_EQ(sums.main_loop->mean_us, 24);
  EXPECT_DOUBLE_EQ(sums.main_loop->median_us, 24);
  EXPECT_NEAR(sums.main_loop->p95_us, 27.6, 1e-9);
  EXPECT_FALSE(sums.stage_tile || sums.store_tile || sums.wait_partial || sums.wait_chunk || sums.push_chunk);
}

TEST(BenchSpans, OnlyStagingForPeersShowsBackPressure) {
  const GemmSpans sums = sums_of({span_of(0, SpanRole::multiply_first, SpanKind::stage_tile, 0, 0, 1000),
                                  span_of(1, SpanRole::multiply_first, SpanKind::stage_tile, 3, 0, 2000),
                                  // Waits for the peer's partial sums.
                                  span_of(0, SpanRole::multiply_first, SpanKind::stage_tile, 4, 0, 50000),
                                  span_of(0, SpanRole::store_first, SpanKind::store_tile, 7, 0, 50000),
                                  span_of(0, SpanRole::store_first, SpanKind::wait_partial, 4, 0, 3000)});
  ASSERT_TRUE(sums.stage_tile);
  EXPECT_DOUBLE_EQ(sums.stage_tile->mean_us, 1.5);
  EXPECT_FALSE(sums.store_tile);
  ASSERT_TRUE(sums.wait_partial);
  EXPECT_DOUBLE_EQ(sums.wait_partial->mean_us, 3);
}

TEST(BenchSpans, StoringBeginsWithTheStagingOfTheSameHalfTile) {
  // The store warps turn to tile 1 at 0; it is staged from 20 us (first half) and 22 us (second half) on.
  const GemmSpans sums = sums_of({span_of(0, SpanRole::multiply_first, SpanKind::stage_tile, 1, 20000, 21000),
                                  span_of(0, SpanRole::multiply_second, SpanKind::stage_tile, 1, 22000, 23000),
                                  span_of(0, SpanRole::store_first, SpanKind::store_tile, 1, 0, 30000),
                                  span_of(0, SpanRole::store_second, SpanKind::store_tile, 1, 0, 34000)});
  ASSERT_TRUE(sums.store_tile);
  EXPECT_DOUBLE_EQ(sums.store_tile->mean_us, 11);
  // A store warp that is late: its own beginning counts.
  const GemmSpans late = sums_of({span_of(0, SpanRole::multiply_first, SpanKind::stage_tile, 1, 20000, 21000),
                                  span_of(0, SpanRole::store_first, SpanKind::store_tile, 1, 25000, 30000)});
  ASSERT_TRUE(late.store_tile);
  EXPECT_DOUBLE_EQ(late.store_tile->mean_us, 5);
}

TEST(BenchSpans, GatherStoresNoTileToAPeer) {
  const gemm::Problem gather = problem_of(Operation::all_gather, 1024, 1024, 512);
  const GemmSpans sums =
      sum_up(trace_of_two({span_of(0, SpanRole::multiply_first, SpanKind::stage_tile, 0, 0, 1000),
                           span_of(0, SpanRole::store_first, SpanKind::store_tile, 0, 0, 1000),
                           span_of(0, SpanRole::push, SpanKind::push_chunk, 900, 0, 500)}),  // a chunk, not a tile
             gather, plan_for(gather));
  EXPECT_FALSE(sums.stage_tile || sums.store_tile);
  ASSERT_TRUE(sums.push_chunk);
  EXPECT_DOUBLE_EQ(sums.push_chunk->mean_us, 0.5);
}

TEST(BenchSpans, TraceOfAnotherProblemIsRefused) {
  try {
    static_cast<void>(sums_of({span_of(1, SpanRole::multiply_first, SpanKind::stage_tile, 8, 0, 1000)}));
    FAIL() << "no error";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("tile 8 on rank 1: its schedule has 8"));
  }
}

TEST(BenchSpans, RoomIsForTheRoleThatHasMost) {
  // 1024 cluster tiles on 66 clusters: 16 for some, three spans each, and an empty place.
  const gemm::Problem large = problem_of(Operation::reduce_scatter, 8192, 8192, 8192);
  EXPECT_EQ(spans_of_a_role(large, plan_for(large), 2), 3 * 16 + 1);
  // 4096 x 8192 elements in pieces of 64 x 64 on 132 CTAs.
  const gemm::Problem gather = problem_of(Operation::all_gather, 8192, 8192, 8192);
  EXPECT_EQ(spans_of_a_role(gather, plan_for(gather), 2), (64 * 128 + 131) / 132 + 1);
}

TEST(BenchSpans, NarrowTilesHaveNone) {
  Plan plan;
  for (const int columns : {128, 256}) {
    plan.tile_columns = columns;
    EXPECT_EQ(why_no_spans(plan), "");
  }
  plan.tile_columns = 64;
  EXPECT_THAT(why_no_spans(plan), HasSubstr("this plan's have 64"));
}

TEST(BenchSpans, RowHasThemBesideThePrediction) {
  GemmSpans spans;
  spans.call_us = 61.25;
  spans.main_loop = SpanTimes{12.5, 12.25, 13};
  const Json json = spans_json(spans, PredictedSpans{11, 2.5});
  EXPECT_EQ(json.at("call_us"), 61.25);
  EXPECT_EQ(json.at("main_loop_us"), Json({{"mean", 12.5}, {"median", 12.25}, {"p95", 13.0}}));
  EXPECT_FALSE(json.contains("stage_tile_us") || json.contains("push_chunk_us"));
  EXPECT_EQ(json.at("predicted"), Json({{"main_loop_us", 11.0}, {"stall_us", 2.5}}));
  EXPECT_FALSE(spans_json(spans, std::nullopt).contains("predicted"));
}

TEST(BenchSpans, OneLineComparesThemWithThePrediction) {
  GemmSpans spans;
  spans.main_loop = SpanTimes{12.5, 12.25, 13};
  EXPECT_EQ(comparison_text(spans, std::nullopt), "main loop 12.50 us (p95 13.00); staging for peers none");
  spans.stage_tile = SpanTimes{1.25, 1, 2};
  EXPECT_EQ(comparison_text(spans, PredictedSpans{11, 0}),
            "main loop 12.50 us (p95 13.00), predicted 11.00; staging for peers 1.25 us (p95 2.00), predicted stall "
            "0.00");
}

}  // namespace
}  // namespace xstage::bench::bench_spans_test
