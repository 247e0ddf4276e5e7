#include "ops/attention/bench/bound.hpp"

#include <gtest/gtest.h>

#include <span>

#include "ops/attention/bench/rows.hpp"

namespace xstage::bench::bench_bound_test {
namespace {

Row fused(const char* shape, double high, double predicted_keys) {
  const AttentionCell cell = make_attention_cells(parse_attention_shapes(shape), 2).front();
  const auto variants = select_variants(std::span<const AttentionVariant>(attention_variants), "fused", 2);
  Row row;
  row.head = head_of(cell, variants, 132, std::nullopt).rows.front();
  row.times.trials_us = {1};
  add_ratio(row, "ratio", PairedRatio{high - 0.01, high - 0.02, high});
  row.figures["prediction"] = {{"shortest_hidden_keys", predicted_keys}};
  return row;
}

TEST(BenchAttentionBound, ShortestThatIsHiddenBesideThePrediction) {
  const std::vector<HidingBound> bounds =
      hiding_bounds({fused("2048x24", 1.031, 513), fused("8192x24", 1.01, 897), fused("4096x24", 1.029, 769)});
  ASSERT_EQ(bounds.size(), 1U);
  EXPECT_EQ(bounds[0].predicted_keys, 897);
  EXPECT_EQ(bounds[0].found_keys, 4096);
}

/// The whole interval counts, not its middle; without one nothing is found.
TEST(BenchAttentionBound, IntervalMustLieBelow) {
  Row row = fused("4096x24", 1.035, 897);
  row.figures["ratio"] = 1.01;
  EXPECT_FALSE(hiding_bounds({row})[0].found_keys);
  row.figures["ratio_high"] = nullptr;
  EXPECT_FALSE(hiding_bounds({row})[0].found_keys);
  row.figures.erase("ratio");
  EXPECT_FALSE(hiding_bounds({row})[0].found_keys);
}

TEST(BenchAttentionBound, HeadsAreToldApart) {
  const std::vector<HidingBound> bounds =
      hiding_bounds({fused("4096x24", 1.01, 897), fused("8192x48", 1.01, 900), fused("4096x24:d64", 1.01, 901),
                     fused("4096x24:kv6", 1.05, 902)});
  ASSERT_EQ(bounds.size(), 4U);
  EXPECT_EQ(bounds[1].found_keys, 8192);
  EXPECT_EQ(bounds[2].predicted_keys, 901);
  EXPECT_FALSE(bounds[3].found_keys);
}

TEST(BenchAttentionBound, OnlyFusedRowsWithAPredictionCount) {
  Row sent = fused("4096x24", 1.01, 897);
  sent.head.variant = "fused_sent";
  Row causal = fused("4096x24:causal", 1.01, 897);
  causal.figures["prediction"].erase("shortest_hidden_keys");
  Row without = fused("4096x24", 1.01, 897);
  without.figures.erase("prediction");
  EXPECT_TRUE(hiding_bounds({sent, causal, without}).empty());
  EXPECT_EQ(bounds_json({}), Json::array());
}

TEST(BenchAttentionBound, FileAndLineSayBoth) {
  const std::vector<HidingBound> bounds = hiding_bounds({fused("4096x24", 1.01, 897), fused("2048x48:kv12", 1.2, 641)});
  EXPECT_EQ(bounds_json(bounds)[0], Json({{"heads", 24},
                                          {"kv_heads", 24},
                                          {"head_dim", 128},
                                          {"ranks", 2},
                                          {"predicted_keys", 897.0},
                                          {"found_keys", 4096},
                                          {"most_residual", 0.03}}));
  EXPECT_TRUE(bounds_json(bounds)[1].at("found_keys").is_null());
  EXPECT_EQ(
      bound_text(bounds[0]),
      "24 heads of 128: stores are hidden from 897 keys on, predicted; residual below 3% from 4096 keys on, measured");
  EXPECT_EQ(bound_text(bounds[1]),
            "48 heads (12 of keys) of 128: stores are hidden from 641 keys on, predicted; residual below 3% at no "
            "length, measured");
}

}  // namespace
}  // namespace xstage::bench::bench_bound_test
