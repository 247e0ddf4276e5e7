#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "bench/attention_row.hpp"

namespace xstage::bench {
namespace {

using ::testing::ElementsAre;

AttentionRow row_of(const char* variant, std::vector<double> trials_us, const char* shape = "4096x48") {
  AttentionRow row;
  row.cell = make_attention_cells(parse_attention_shapes(shape), 2).front();
  row.times = {variant, 50, 310.0, std::move(trials_us)};
  row.l2 = "inputs rotate over 2 sets";
  return row;
}

std::vector<double> steady(double microseconds) { return std::vector<double>(7, microseconds); }

std::optional<PairedRatio> hidden(std::vector<double> attention, std::vector<double> serial,
                                  std::vector<double> fused) {
  return hiding_ratio({"attention", 1, 0, std::move(attention)}, {"serial", 1, 0, std::move(serial)},
                      {"fused", 1, 0, std::move(fused)});
}

TEST(BenchAttentionRows, ComparisonsOfACell) {
  std::vector<AttentionRow> rows{row_of("attention", steady(300)), row_of("all_to_all", steady(50)),
                                 row_of("serial", steady(350)), row_of("fused", steady(306)),
                                 row_of("local_twin", steady(303))};
  add_ratios(rows);
  EXPECT_FALSE(rows[0].ratio || rows[1].ratio);
  EXPECT_DOUBLE_EQ(rows[2].ratio->ratio, 350.0 / 300);
  EXPECT_DOUBLE_EQ(rows[3].ratio->ratio, 1.02);
  EXPECT_DOUBLE_EQ(rows[3].ratio->high, 1.02);
  EXPECT_DOUBLE_EQ(rows[3].serial_ratio->ratio, 306.0 / 350);
  EXPECT_DOUBLE_EQ(rows[3].twin_ratio->ratio, 306.0 / 303);
  EXPECT_DOUBLE_EQ(rows[3].hiding->ratio, 1 - 6.0 / 50);
  EXPECT_DOUBLE_EQ(*rows[3].ceiling, 1);
  EXPECT_DOUBLE_EQ(rows[4].ratio->ratio, 1.01);
  EXPECT_FALSE(rows[4].hiding || rows[4].ceiling);
}

TEST(BenchAttentionRows, CommunicatingThatTakesLongerIsTheCeiling) {
  std::vector<AttentionRow> rows{row_of("attention", steady(20)), row_of("all_to_all", steady(30)),
                                 row_of("fused", steady(35))};
  add_ratios(rows);
  EXPECT_DOUBLE_EQ(*rows[2].ceiling, 1.5);
  EXPECT_FALSE(rows[2].hiding || rows[2].serial_ratio || rows[2].twin_ratio);
}

TEST(BenchAttentionRows, VariantsThatAreNotThereAreNotComparedWith) {
  std::vector<AttentionRow> rows{row_of("fused", steady(306))};
  add_ratios(rows);
  EXPECT_FALSE(rows[0].ratio || rows[0].ceiling || rows[0].hiding);
}

TEST(BenchAttentionRows, HidingIsPairedByRound) {
  // The GPU is slower in every other round, and all variants with it.
  const auto ratio = hidden({100, 200, 100, 200, 100, 200, 100}, {120, 240, 120, 240, 120, 240, 120},
                            {104, 208, 104, 208, 104, 208, 104});
  ASSERT_TRUE(ratio);
  EXPECT_DOUBLE_EQ(ratio->ratio, 0.8);
  EXPECT_DOUBLE_EQ(ratio->low, 0.8);
  EXPECT_DOUBLE_EQ(ratio->high, 0.8);
}

TEST(BenchAttentionRows, HidingHasItsLimits) {
  EXPECT_DOUBLE_EQ(hidden(steady(100), steady(120), steady(100))->ratio, 1);
  EXPECT_DOUBLE_EQ(hidden(steady(100), steady(120), steady(120))->ratio, 0);
  EXPECT_DOUBLE_EQ(hidden(steady(100), steady(120), steady(130))->ratio, -0.5);  // worse than no fusing at all
}

TEST(BenchAttentionRows, NothingToHideHasNoHidingRatio) {
  EXPECT_FALSE(hidden(steady(100), steady(100), steady(100)));
  EXPECT_FALSE(hidden({}, {}, {}));
  // More rounds in which communicating took time than not, but noise says as much.
  EXPECT_FALSE(hidden(steady(100), {101, 99, 101, 99, 101, 99, 101}, steady(100)));
  // Too few rounds for an interval: none may be without.
  EXPECT_FALSE(hidden({100, 100}, {120, 99}, {100, 100}));
  EXPECT_TRUE(hidden({100, 100}, {120, 110}, {100, 100}));
}

TEST(BenchAttentionRows, RoundWithoutCommunicatingCountsAsNotHidden) {
  // Nine rounds: the interval of the median leaves out one at either end.
  std::vector<double> serial(9, 120);
  serial[4] = 100;  // 0 / 0, unless it is seen
  const auto ratio = hidden(std::vector<double>(9, 100), serial, std::vector<double>(9, 100));
  ASSERT_TRUE(ratio);
  EXPECT_DOUBLE_EQ(ratio->ratio, 1);
  EXPECT_DOUBLE_EQ(ratio->low, 1);
  EXPECT_DOUBLE_EQ(ratio->high, 1);
}

TEST(BenchAttentionRows, RowSaysWhatTheSchemaAsksFor) {
  AttentionRow row = row_of("fused", {300, 310, 320}, "4096x48:d64:causal:kv12");
  row.ratio = PairedRatio{1.02, 1.01, std::numeric_limits<double>::quiet_NaN()};
  row.twin_ratio = PairedRatio{1.01, 1, 1.02};
  row.hiding = PairedRatio{0.9, 0.8, 0.95};
  row.one_shot_us = 320.25;
  row.largest_error = 0.75;
  row.plan = attention::Plan{};
  row.plan->store_interval_ns = 5793;
  const Json json = row_json(row);
  EXPECT_EQ(json.at("sequence"), 4096);
  EXPECT_EQ(json.at("heads"), 48);  // of all ranks
  EXPECT_EQ(json.at("kv_heads"), 12);
  EXPECT_EQ(json.at("head_dim"), 64);
  EXPECT_EQ(json.at("causal"), true);
  EXPECT_EQ(json.at("dtype"), "bf16");
  EXPECT_EQ(json.at("ranks"), 2);
  EXPECT_EQ(json.at("variant"), "fused");
  EXPECT_DOUBLE_EQ(json.at("microseconds").get<double>(), 310);
  EXPECT_DOUBLE_EQ(json.at("p5").get<double>(), 301);
  EXPECT_DOUBLE_EQ(json.at("p95").get<double>(), 319);
  EXPECT_NEAR(json.at("tflops").get<double>(), 2.0 * 4096 * 4096 * 64 * 24 / 310e6, 1e-3);  // of one rank
  EXPECT_EQ(json.at("ratio"), 1.02);
  EXPECT_TRUE(json.at("ratio_high").is_null());
  EXPECT_EQ(json.at("ratio_to"), "attention");
  EXPECT_EQ(json.at("twin_ratio_low"), 1.0);
  EXPECT_EQ(json.at("hiding"), 0.9);
  EXPECT_EQ(json.at("one_shot_us"), 320.25);
  EXPECT_EQ(json.at("eager_us"), 310.0);
  EXPECT_EQ(json.at("replays"), 50);
  EXPECT_EQ(json.at("plan").at("store_path"), "bulk");
  EXPECT_EQ(json.at("plan").at("store_interval_ns"), 5793);
  EXPECT_EQ(json.at("largest_error_in_roundings"), 0.75);
  EXPECT_EQ(json.at("trials"), 3);
  EXPECT_EQ(json.at("trials_us"), Json({300.0, 310.0, 320.0}));
  for (const char* absent : {"serial_ratio", "ceiling", "gb_per_s", "all_to_all_plan"}) {
    EXPECT_FALSE(json.contains(absent)) << absent;
  }
}

TEST(BenchAttentionRows, AllToAllHasARateOfBytes) {
  AttentionRow row = row_of("all_to_all", steady(50));
  row.exchange_plan = all_to_all::Plan{};
  EXPECT_FALSE(tflops(row));
  const Json json = row_json(row);
  EXPECT_FALSE(json.contains("tflops") || json.contains("ratio") || json.contains("plan"));
  EXPECT_EQ(json.at("all_to_all_plan").at("transfer"), "by_rule");
  // Half of the rows of 24 heads go to the peer.
  EXPECT_EQ(json.at("remote_bytes"), 4096 / 2 * 24 * 128 * 2);
  EXPECT_NEAR(json.at("gb_per_s").get<double>(), 4096.0 / 2 * 24 * 128 * 2 / 50e3, 1e-3);
}

TEST(BenchAttentionRows, KeysAreUnique) {
  EXPECT_EQ(rows_json({row_of("attention", {1}), row_of("fused", {1}), row_of("fused", {1}, "4096x48:causal"),
                       row_of("fused", {1}, "4096x48:d64"), row_of("fused", {1}, "4096x48:kv12")})
                .size(),
            5U);
  EXPECT_THROW(static_cast<void>(rows_json({row_of("fused", {1}), row_of("fused", {2})})), std::logic_error);
}

TEST(BenchStatistics, MedianOfRoundsHasAnInterval) {
  const PairedRatio of_twenty =
      median_of_rounds({20, 1, 19, 2, 18, 3, 17, 4, 16, 5, 15, 6, 14, 7, 13, 8, 12, 9, 11, 10});
  EXPECT_DOUBLE_EQ(of_twenty.ratio, 10.5);
  EXPECT_DOUBLE_EQ(of_twenty.low, 6);
  EXPECT_DOUBLE_EQ(of_twenty.high, 15);
  EXPECT_THROW(static_cast<void>(median_of_rounds({})), std::logic_error);
}

}  // namespace
}  // namespace xstage::bench
