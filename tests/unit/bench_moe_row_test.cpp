#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>
#include <utility>
#include <vector>

#include "bench/moe_row.hpp"

namespace xstage::bench {
namespace {

MoeCell cell_of(const char* shape = "GLM-5") { return {moe::find_shape(shape), 8192, moe::Skew::zipf, {1, 2}, 2}; }

MoeRow row_of(const char* variant, std::vector<double> trials_us, MoeCell cell = cell_of()) {
  MoeRow row;
  row.cell = cell;
  row.load = {65536, 90'000'000, 100'000'000, 400'000'000};
  row.times = {variant, 20, 810.0, std::move(trials_us)};
  row.l2 = "tokens rotate over 2 sets";
  return row;
}

std::vector<double> steady(double microseconds) { return std::vector<double>(7, microseconds); }

TEST(BenchMoeRows, LayerIsComparedWithItsParts) {
  // The GPU is slower in every other round, and all variants with it.
  std::vector<MoeRow> rows{row_of("unfused", {1200, 2400, 1200, 2400, 1200, 2400, 1200}),
                           row_of("dispatch", {100, 200, 100, 200, 100, 200, 100}),
                           row_of("linear1", {500, 1000, 500, 1000, 500, 1000, 500}),
                           row_of("linear2", {300, 600, 300, 600, 300, 600, 300}),
                           row_of("combine", {100, 200, 100, 200, 100, 200, 100}),
                           row_of("unfused_rows", {2400, 4800, 2400, 4800, 2400, 4800, 2400}),
                           row_of("combine_rows", {1100, 2200, 1100, 2200, 1100, 2200, 1100})};
  add_ratios(rows);
  EXPECT_DOUBLE_EQ(rows[5].ratio->ratio, 3);
  EXPECT_DOUBLE_EQ(rows[5].parts_ratio->ratio, 1.2);
  EXPECT_DOUBLE_EQ(rows[0].ratio->ratio, 1.5);
  EXPECT_DOUBLE_EQ(rows[0].ratio->low, 1.5);
  EXPECT_DOUBLE_EQ(rows[0].parts_ratio->ratio, 1.2);
  EXPECT_DOUBLE_EQ(rows[0].parts_ratio->high, 1.2);
  for (const std::size_t part : std::vector<std::size_t>{1, 2, 3, 4, 6}) {
    EXPECT_FALSE(rows[part].ratio || rows[part].parts_ratio) << part;
  }
}

TEST(BenchMoeRows, PartsThatAreNotThereAreNotComparedWith) {
  std::vector<MoeRow> rows{row_of("unfused", steady(1200)), row_of("linear1", steady(500))};
  add_ratios(rows);
  EXPECT_FALSE(rows[0].ratio || rows[0].parts_ratio);
  rows.push_back(row_of("linear2", steady(300)));
  add_ratios(rows);
  EXPECT_DOUBLE_EQ(rows[0].ratio->ratio, 1.5);
  EXPECT_FALSE(rows[0].parts_ratio);
}

TEST(BenchMoeRows, ExchangesHaveTheirShareOfTheDrainRate) {
  std::vector<MoeRow> rows{row_of("unfused", steady(1200)), row_of("dispatch", steady(300)),
                           row_of("combine", steady(500)), row_of("combine_rows", steady(1000)),
                           row_of("dispatch_local", steady(100))};
  EXPECT_DOUBLE_EQ(gb_per_s(rows[1]), 300);
  EXPECT_DOUBLE_EQ(gb_per_s(rows[2]), 200);
  EXPECT_DOUBLE_EQ(gb_per_s(rows[3]), 400);
  add_drain_shares(rows, 400);
  EXPECT_FALSE(rows[0].drain_share);
  EXPECT_FALSE(rows[4].drain_share) << "its rows do not leave";
  EXPECT_DOUBLE_EQ(*rows[1].drain_share, 0.75);
  EXPECT_DOUBLE_EQ(*rows[2].drain_share, 0.5);
  EXPECT_DOUBLE_EQ(*rows[3].drain_share, 1);
}

TEST(BenchMoeRows, RowSaysWhatTheSchemaAsksFor) {
  MoeRow row = row_of("unfused", {800, 810, 820});
  row.ratio = PairedRatio{1.3, 1.2, std::numeric_limits<double>::quiet_NaN()};
  row.parts_ratio = PairedRatio{1.02, 1.01, 1.03};
  row.one_shot_us = 820.25;
  row.largest_error = 0.75;
  const Json json = row_json(row);
  EXPECT_EQ(json.at("shape"), "GLM-5");
  EXPECT_EQ(json.at("tokens"), 8192);
  EXPECT_EQ(json.at("routing"), "skewed");
  EXPECT_EQ(json.at("remote_share"), "1/2");
  EXPECT_EQ(json.at("dtype"), "bf16");
  EXPECT_EQ(json.at("ranks"), 2);
  EXPECT_EQ(json.at("variant"), "unfused");
  EXPECT_DOUBLE_EQ(json.at("microseconds").get<double>(), 810);
  EXPECT_DOUBLE_EQ(json.at("p5").get<double>(), 801);
  EXPECT_DOUBLE_EQ(json.at("p95").get<double>(), 819);
  EXPECT_NEAR(json.at("tflops").get<double>(), 6.0 * 65536 * 6144 * 2048 / 810e6, 1e-3);
  EXPECT_EQ(json.at("rows"), 65536);
  EXPECT_EQ(json.at("ratio"), 1.3);
  EXPECT_TRUE(json.at("ratio_high").is_null());
  EXPECT_EQ(json.at("ratio_to"), "linear1+linear2");
  EXPECT_EQ(json.at("parts_ratio_low"), 1.01);
  EXPECT_EQ(json.at("one_shot_us"), 820.25);
  EXPECT_EQ(json.at("eager_us"), 810.0);
  EXPECT_EQ(json.at("replays"), 20);
  EXPECT_EQ(json.at("l2"), "tokens rotate over 2 sets");
  EXPECT_EQ(json.at("largest_error_in_roundings"), 0.75);
  EXPECT_EQ(json.at("trials"), 3);
  EXPECT_EQ(json.at("trials_us"), Json({800.0, 810.0, 820.0}));
}

TEST(BenchMoeRows, WhatARowDoesNotHaveIsAbsent) {
  const Json linear = row_json(row_of("linear1", steady(500)));
  for (const char* absent : {"ratio", "ratio_to", "parts_ratio", "one_shot_us", "largest_error_in_roundings",
                             "remote_bytes", "gb_per_s", "drain_share"}) {
    EXPECT_FALSE(linear.contains(absent)) << absent;
  }
  MoeRow row = row_of("dispatch", steady(300));
  row.drain_share = 0.9;
  const Json dispatch = row_json(row);
  EXPECT_FALSE(dispatch.contains("tflops"));
  EXPECT_EQ(dispatch.at("remote_bytes"), 90'000'000);
  EXPECT_EQ(dispatch.at("gb_per_s"), 300.0);
  EXPECT_EQ(dispatch.at("drain_share"), 0.9);
}

TEST(BenchMoeRows, KeysAreUnique) {
  std::vector<MoeRow> rows{row_of("unfused", {1}), row_of("linear1", {1}), row_of("unfused", {1}, cell_of("Qwen3.5"))};
  MoeCell other = cell_of();
  for (const auto& change : std::vector<MoeCell>{{other.shape, 64, other.skew, other.remote_share, 2},
                                                 {other.shape, 8192, moe::Skew::balanced, other.remote_share, 2},
                                                 {other.shape, 8192, other.skew, {7, 8}, 2},
                                                 {other.shape, 8192, other.skew, other.remote_share, 4}}) {
    rows.push_back(row_of("unfused", {1}, change));
  }
  EXPECT_EQ(rows_json(rows).size(), 7U);
  rows.push_back(row_of("unfused", {2}));
  EXPECT_THROW(static_cast<void>(rows_json(rows)), std::logic_error);
}

}  // namespace
}  // namespace xstage::bench
