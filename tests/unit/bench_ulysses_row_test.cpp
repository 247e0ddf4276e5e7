#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>
#include <vector>

#include "bench/ulysses_row.hpp"

namespace xstage::bench {
namespace {

UlyssesRow row_of(const char* variant, std::vector<double> trials_us, UlyssesCell cell = {4096, 24, 2}) {
  UlyssesRow row;
  row.cell = cell;
  row.times = {variant, 20, 810.0, std::move(trials_us)};
  row.l2 = "inputs rotate over 2 sets";
  return row;
}

std::vector<double> steady(double microseconds) { return std::vector<double>(7, microseconds); }

TEST(BenchUlyssesRows, ComparisonsOfACell) {
  std::vector<UlyssesRow> rows{row_of("compute", steady(800)), row_of("attention", steady(300)),
                               row_of("fused", steady(880)), row_of("flags", steady(840))};
  add_ratios(rows);
  EXPECT_FALSE(rows[0].ratio || rows[0].flags_to_fused || rows[1].ratio || rows[1].flags_to_fused);
  EXPECT_DOUBLE_EQ(rows[2].ratio->ratio, 1.1);
  EXPECT_DOUBLE_EQ(rows[2].ratio->high, 1.1);
  EXPECT_FALSE(rows[2].flags_to_fused);
  EXPECT_DOUBLE_EQ(rows[3].ratio->ratio, 1.05);
  EXPECT_DOUBLE_EQ(rows[3].flags_to_fused->ratio, 840.0 / 880);
}

TEST(BenchUlyssesRows, RatiosArePairedByRound) {
  // The GPU is slower in every other round, and all variants with it.
  std::vector<UlyssesRow> rows{row_of("compute", {100, 200, 100, 200, 100, 200, 100}),
                               row_of("fused", {120, 240, 120, 240, 120, 240, 120}),
                               row_of("flags", {108, 216, 108, 216, 108, 216, 108})};
  add_ratios(rows);
  EXPECT_DOUBLE_EQ(rows[1].ratio->low, 1.2);
  EXPECT_DOUBLE_EQ(rows[1].ratio->high, 1.2);
  EXPECT_DOUBLE_EQ(rows[2].ratio->ratio, 1.08);
  EXPECT_DOUBLE_EQ(rows[2].flags_to_fused->low, 0.9);
  EXPECT_DOUBLE_EQ(rows[2].flags_to_fused->high, 0.9);
}

TEST(BenchUlyssesRows, VariantsThatAreNotThereAreNotComparedWith) {
  std::vector<UlyssesRow> alone{row_of("flags", steady(840))};
  add_ratios(alone);
  EXPECT_FALSE(alone[0].ratio || alone[0].flags_to_fused);
  std::vector<UlyssesRow> both{row_of("fused", steady(880)), row_of("flags", steady(840))};
  add_ratios(both);
  EXPECT_FALSE(both[0].ratio || both[1].ratio);
  EXPECT_TRUE(both[1].flags_to_fused);
}

TEST(BenchUlyssesRows, RowSaysWhatTheSchemaAsksFor) {
  UlyssesRow row = row_of("flags", {800, 810, 820});
  row.ratio = PairedRatio{1.02, 1.01, std::numeric_limits<double>::quiet_NaN()};
  row.flags_to_fused = PairedRatio{0.97, 0.96, 0.98};
  row.one_shot_us = 820.25;
  row.largest_error = 0.75;
  const Json json = row_json(row);
  EXPECT_EQ(json.at("tokens"), 4096);
  EXPECT_EQ(json.at("heads"), 24);  // of all ranks
  EXPECT_EQ(json.at("head_dim"), 128);
  EXPECT_EQ(json.at("dtype"), "bf16");
  EXPECT_EQ(json.at("ranks"), 2);
  EXPECT_EQ(json.at("variant"), "flags");
  EXPECT_DOUBLE_EQ(json.at("microseconds").get<double>(), 810);
  EXPECT_DOUBLE_EQ(json.at("p5").get<double>(), 801);
  EXPECT_DOUBLE_EQ(json.at("p95").get<double>(), 819);
  const double operations = 2.0 * 2048 * 4 * 3072 * 3072 + 4.0 * 4096 * 4096 * 128 * 12;  // of one rank
  EXPECT_NEAR(json.at("tflops").get<double>(), operations / 810e6, 1e-3);
  EXPECT_EQ(json.at("ratio"), 1.02);
  EXPECT_EQ(json.at("ratio_low"), 1.01);
  EXPECT_TRUE(json.at("ratio_high").is_null());
  EXPECT_EQ(json.at("ratio_to"), "compute");
  EXPECT_EQ(json.at("flags_to_fused"), 0.97);
  EXPECT_EQ(json.at("flags_to_fused_low"), 0.96);
  EXPECT_EQ(json.at("one_shot_us"), 820.25);
  EXPECT_EQ(json.at("eager_us"), 810.0);
  EXPECT_EQ(json.at("replays"), 20);
  EXPECT_EQ(json.at("l2"), "inputs rotate over 2 sets");
  EXPECT_EQ(json.at("largest_error_in_roundings"), 0.75);
  EXPECT_EQ(json.at("trials"), 3);
  EXPECT_EQ(json.at("trials_us"), Json({800.0, 810.0, 820.0}));
}

TEST(BenchUlyssesRows, WhatARowDoesNotHaveIsAbsent) {
  const Json json = row_json(row_of("compute", steady(800)));
  for (const char* absent : {"ratio", "ratio_to", "flags_to_fused", "one_shot_us", "largest_error_in_roundings"}) {
    EXPECT_FALSE(json.contains(absent)) << absent;
  }
}

TEST(BenchUlyssesRows, KeysAreUnique) {
  EXPECT_EQ(rows_json({row_of("compute", {1}), row_of("fused", {1}), row_of("fused", {1}, {4096, 40, 2}),
                       row_of("fused", {1}, {8192, 24, 2}), row_of("fused", {1}, {4096, 24, 4})})
                .size(),
            5U);
  EXPECT_THROW(static_cast<void>(rows_json({row_of("fused", {1}), row_of("fused", {2})})), std::logic_error);
}

}  // namespace
}  // namespace xstage::bench
