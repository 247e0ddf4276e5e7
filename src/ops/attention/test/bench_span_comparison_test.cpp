// Spans of a cell beside each other and beside the model; the platform drains 400,000 bytes a microsecond.

#include "ops/attention/bench/span_comparison.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "unit/audit_platform.hpp"
#include "xstage/error.hpp"

namespace xstage::bench::bench_span_comparison_test {
namespace {

using testing::HasSubstr;

PredictionBasis round_basis() {
  Platform platform = round_platform();
  platform.paths[0].path = StorePath::bulk;
  return {platform, 132};
}

/// 128 CTAs of 32,000 bytes: 10.24 us to drain.
AttentionSpans with_wave(double gap_us) {
  AttentionSpans spans;
  spans.wave = PeerWave{128 * 32000.0, 128, 128, gap_us};
  return spans;
}

TEST(BenchAttentionSpanComparison, StoresToPeersAgainstThoseOfTheTwin) {
  AttentionSpans fused;
  AttentionSpans twin;
  fused.store_tile = SpanTimes{9, 3.03, 4};
  twin.store_tile = SpanTimes{3, 3, 4};
  fused.stage_tile = SpanTimes{1, 1.5, 2};
  twin.stage_tile = SpanTimes{1, 1, 2};
  // Not what goes to peers.
  fused.store_own = SpanTimes{50, 50, 50};
  add_twin_comparison(fused, twin);
  EXPECT_DOUBLE_EQ(*fused.store_to_twin, 1.01);
  EXPECT_DOUBLE_EQ(*fused.stage_to_twin, 1.5);
}

TEST(BenchAttentionSpanComparison, CausalStoresAreComparedAltogether) {
  AttentionSpans fused;
  AttentionSpans twin;
  fused.store_all = SpanTimes{3, 3, 3};
  twin.store_all = SpanTimes{2, 2, 2};
  add_twin_comparison(fused, twin);
  EXPECT_DOUBLE_EQ(*fused.store_to_twin, 1.5);
  EXPECT_FALSE(fused.stage_to_twin);
}

TEST(BenchAttentionSpanComparison, LongMainLoopsPassTheDesignTest) {
  AttentionSpans spans = with_wave(300);
  spans.wave->coincident_producers = 32;  // 1,024,000 bytes, 200,000 of which drain while they are issued
  add_verdict(spans, StorePath::bulk, round_basis());
  ASSERT_TRUE(spans.verdict);
  EXPECT_EQ(spans.verdict->free_running, Verdict::piggyback);
  EXPECT_EQ(spans.verdict->aligned, Verdict::piggyback);
  EXPECT_EQ(spans.verdict->free_running_stall_us, 0);
}

/// V / R - G - T_iss0 = 10.24 - 4 - 0.5.
TEST(BenchAttentionSpanComparison, ShortMainLoopsDoNot) {
  AttentionSpans spans = with_wave(4);
  add_verdict(spans, StorePath::bulk, round_basis());
  ASSERT_TRUE(spans.verdict);
  EXPECT_EQ(spans.verdict->free_running, Verdict::reshape);
  EXPECT_NEAR(spans.verdict->free_running_stall_us, 5.74, 1e-9);
  EXPECT_EQ(spans.verdict->aligned, Verdict::reshape);
}

TEST(BenchAttentionSpanComparison, UnequalSharesAreWholeStores) {
  AttentionSpans spans = with_wave(300);
  spans.wave->bytes = 128 * 32000.0 - 256;
  EXPECT_NO_THROW(add_verdict(spans, StorePath::bulk, round_basis()));
  EXPECT_TRUE(spans.verdict);
}

TEST(BenchAttentionSpanComparison, VerdictNeedsAWaveAndItsPath) {
  AttentionSpans without;
  add_verdict(without, StorePath::bulk, round_basis());
  EXPECT_FALSE(without.verdict);
  AttentionSpans spans = with_wave(300);
  try {
    add_verdict(spans, StorePath::store16, round_basis());
    FAIL() << "no error";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("store16"));
  }
}

TEST(BenchAttentionSpanComparison, RowHasThemBesideThePrediction) {
  AttentionSpans spans = with_wave(300);
  spans.call_us = 301.5;
  spans.main_loop = SpanTimes{300.5, 300, 310};
  spans.store_tile = SpanTimes{12, 11, 14};
  spans.store_own = SpanTimes{2, 2, 3};
  spans.tail_us = 1.25;
  spans.store_to_twin = 1.01;
  const Json json = spans_json(spans, std::nullopt);
  EXPECT_EQ(json.at("call_us"), 301.5);
  EXPECT_EQ(json.at("main_loop_us"), Json({{"mean", 300.5}, {"median", 300.0}, {"p95", 310.0}}));
  EXPECT_EQ(json.at("store_tile_us").at("median"), 11.0);
  EXPECT_EQ(json.at("store_own_us").at("p95"), 3.0);
  EXPECT_EQ(json.at("tail_us"), 1.25);
  EXPECT_EQ(json.at("store_to_twin"), 1.01);
  EXPECT_EQ(json.at("wave"),
            Json({{"bytes", 4096000.0}, {"producers", 128}, {"coincident_producers", 128}, {"gap_us", 300.0}}));
  for (const char* absent : {"main_loop_part_us", "stage_tile_us", "stage_own_us", "stage_all_us", "store_all_us",
                             "stage_to_twin", "predicted", "audit"}) {
    EXPECT_FALSE(json.contains(absent)) << absent;
  }
  AttentionPrediction prediction;
  prediction.remote_bytes = 4e6;
  prediction.main_loop_us = 299;
  prediction.drain_us = 10;
  prediction.tail_us = 2;
  spans.verdict =
      PeerWaveVerdict{Verdict::piggyback, Verdict::cannot_decide, 0.5, std::numeric_limits<double>::quiet_NaN()};
  const Json beside = spans_json(spans, prediction);
  EXPECT_EQ(
      beside.at("predicted"),
      Json({{"wave_bytes", 4e6}, {"main_loop_us", 299.0}, {"drain_us", 10.0}, {"stall_us", 0.0}, {"tail_us", 2.0}}));
  EXPECT_EQ(beside.at("audit").at("free_running"), Json({{"verdict", "piggyback"}, {"stall_us", 0.5}}));
  EXPECT_EQ(beside.at("audit").at("aligned"), Json({{"verdict", "cannot decide"}, {"stall_us", nullptr}}));
}

TEST(BenchAttentionSpanComparison, OneLineComparesThemWithThePrediction) {
  AttentionSpans spans;
  EXPECT_EQ(comparison_text(spans, std::nullopt),
            "main loop not recorded; staging for peers none; storing for peers none; tail 0.00 us");
  spans.main_loop_part = SpanTimes{6, 5, 7};
  EXPECT_THAT(comparison_text(spans, std::nullopt), HasSubstr("main loop 5.00 us (p95 7.00) of a part;"));
  spans.main_loop = SpanTimes{31, 30, 32};
  spans.stage_tile = SpanTimes{2, 1.5, 3};
  spans.store_tile = SpanTimes{12, 11, 14};
  spans.store_own = SpanTimes{2, 2, 3};
  spans.store_to_twin = 1.01;
  spans.wave = PeerWave{4.5e6, 96, 40, 30};
  spans.verdict = PeerWaveVerdict{Verdict::piggyback, Verdict::reshape, 0, 0};
  AttentionPrediction prediction;
  prediction.main_loop_us = 29;
  prediction.remote_bytes = 4.4e6;
  prediction.tail_us = 1;
  EXPECT_EQ(comparison_text(spans, prediction),
            "main loop 30.00 us (p95 32.00), predicted 29.00; staging for peers 1.50 us (p95 3.00), predicted stall "
            "0.00; storing for peers 11.00 us (p95 14.00), 1.010 of local twin, own 2.00 us (p95 3.00); tail 0.00 us, "
            "predicted 1.00; V 4.50 MB, predicted 4.40; 96 CTAs store, 40 at once; G 30.00 us; piggyback "
            "(free-running), reshape (aligned)");
  AttentionSpans causal;
  causal.stage_all = SpanTimes{1, 1, 1};
  causal.store_all = SpanTimes{2, 2, 2};
  EXPECT_THAT(comparison_text(causal, std::nullopt), HasSubstr("storing for all 2.00 us"));
}

}  // namespace
}  // namespace xstage::bench::bench_span_comparison_test
