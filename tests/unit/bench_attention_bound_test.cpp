#include "bench/attention_bound.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace xstage::bench {
namespace {

AttentionRow fused(const char* shape, double high, double predicted_keys) {
  AttentionRow row;
  row.cell = make_attention_cells(parse_attention_shapes(shape), 2).front();
  row.times = {"fused", 1, 0, {1}};
  row.ratio = PairedRatio{high - 0.01, high - 0.02, high};
  row.prediction = AttentionPrediction{};
  row.prediction->shortest_hidden_keys = predicted_keys;
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
  AttentionRow row = fused("4096x24", 1.035, 897);
  row.ratio->ratio = 1.01;
  EXPECT_FALSE(hiding_bounds({row})[0].found_keys);
  row.ratio->high = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(hiding_bounds({row})[0].found_keys);
  row.ratio.reset();
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
  AttentionRow arrived = fused("4096x24", 1.01, 897);
  arrived.times.variant = "fused_arrived";
  AttentionRow causal = fused("4096x24:causal", 1.01, 897);
  causal.prediction->shortest_hidden_keys.reset();
  AttentionRow without = fused("4096x24", 1.01, 897);
  without.prediction.reset();
  EXPECT_TRUE(hiding_bounds({arrived, causal, without}).empty());
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
}  // namespace xstage::bench
