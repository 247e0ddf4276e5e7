// Rows of result files, whatever they measure.

#include "bench/row.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>

#include "unit/bench_row_support.hpp"

namespace xstage::bench::bench_row_test {
namespace {

using testing::HasSubstr;

Row complete_row() {
  Row row = measured_rows({{"fused", {800, 810, 820}}}).front();
  row.head.key = {{"tokens", 4096}, {"ranks", 2}};
  row.head.shape = "4096x24";
  row.head.plans["plan"] = {{"issuers", 132}};
  row.times.replays = 20;
  row.times.eager_us = 815;
  row.times.one_shot_us = 820.25;
  row.times.sustained_us = 850.5;
  row.l2 = "inputs rotate over 2 sets";
  row.largest_error = 0.75;
  add_tflops(row, 810e6);
  add_ratio(row, "ratio", PairedRatio{1.02, 1.01, std::numeric_limits<double>::quiet_NaN()});
  row.figures["ratio_to"] = "compute";
  return row;
}

TEST(BenchRow, FileHasAllFields) {
  const Json json = row_json(complete_row());
  EXPECT_EQ(json.at("tokens"), 4096);
  EXPECT_EQ(json.at("ranks"), 2);
  EXPECT_EQ(json.at("variant"), "fused");
  EXPECT_EQ(json.at("dtype"), "bf16");
  EXPECT_EQ(json.at("microseconds"), 810.0);
  EXPECT_EQ(json.at("p5"), 801.0);
  EXPECT_EQ(json.at("p95"), 819.0);
  EXPECT_EQ(json.at("sustained_us"), 850.5);
  EXPECT_EQ(json.at("tflops"), 1.0);
  EXPECT_EQ(json.at("ratio"), 1.02);
  EXPECT_EQ(json.at("ratio_low"), 1.01);
  EXPECT_TRUE(json.at("ratio_high").is_null());
  EXPECT_EQ(json.at("ratio_to"), "compute");
  EXPECT_EQ(json.at("one_shot_us"), 820.25);
  EXPECT_EQ(json.at("eager_us"), 815.0);
  EXPECT_EQ(json.at("replays"), 20);
  EXPECT_EQ(json.at("l2"), "inputs rotate over 2 sets");
  EXPECT_EQ(json.at("plan"), Json({{"issuers", 132}}));
  EXPECT_EQ(json.at("largest_error_in_roundings"), 0.75);
  EXPECT_EQ(json.at("trials"), 3);
  EXPECT_EQ(json.at("trials_us"), Json({800.0, 810.0, 820.0}));
}

TEST(BenchRow, WhatItDoesNotHaveIsAbsent) {
  const Json json = row_json(measured_rows({{"cublas", {10}}}).front());
  for (const char* absent : {"sustained_us", "one_shot_us", "largest_error_in_roundings", "plan", "ratio", "tflops"}) {
    EXPECT_FALSE(json.contains(absent)) << absent;
  }
}

TEST(BenchRow, KeysAreUnique) {
  std::vector<Row> rows{complete_row(), complete_row(), complete_row()};
  rows[1].head.key["tokens"] = 8192;
  rows[2].head.variant = "flags";
  EXPECT_EQ(rows_json(rows).size(), 3U);
  rows.push_back(complete_row());
  rows.back().times.trials_us = {1};
  EXPECT_THROW(static_cast<void>(rows_json(rows)), std::logic_error);
}

TEST(BenchRow, ListHasKeysAndPlansAndNoTimes) {
  const Json list = list_json({{"one cell", {complete_row().head}}});
  EXPECT_EQ(
      list.at("rows"),
      Json::array({Json(
          {{"tokens", 4096}, {"ranks", 2}, {"variant", "fused"}, {"dtype", "bf16"}, {"plan", {{"issuers", 132}}}})}));
}

TEST(BenchRow, CeilingIsTheLongerOfBothParts) {
  std::vector<Row> rows = measured_rows({{"fused", {100}}, {"slow", {200}}});
  add_ceiling(rows[0], 80, 40);
  EXPECT_DOUBLE_EQ(rows[0].figures.at("ceiling").get<double>(), 1.5);
  EXPECT_DOUBLE_EQ(rows[0].figures.at("reached").get<double>(), 0.8);
  add_ceiling(rows[1], 50, 150);
  EXPECT_DOUBLE_EQ(rows[1].figures.at("ceiling").get<double>(), 200.0 / 150);
  EXPECT_DOUBLE_EQ(rows[1].figures.at("reached").get<double>(), 0.75);
}

TEST(BenchRow, SumsOfTrialsNeedAllVariants) {
  const std::vector<Row> rows = measured_rows({{"linear1", {1, 2}}, {"linear2", {10, 20}}});
  EXPECT_EQ(sum_of_trials(rows, {"linear1", "linear2"}), (std::vector<double>{11, 22}));
  EXPECT_FALSE(sum_of_trials(rows, {"linear1", "combine"}));
}

TEST(BenchRow, TableShowsWhatTheRowHas) {
  Row row = complete_row();
  row.remark = "spans: main loop 3 us";
  const std::string lines = table_lines(row);
  EXPECT_THAT(lines, HasSubstr("4096x24"));
  EXPECT_THAT(lines, HasSubstr("1.0 TFLOP/s, 1.020 [1.010, nan] of compute, sustained 850.5 us\n"));
  EXPECT_THAT(lines, HasSubstr("\n  spans: main loop 3 us\n"));
}

}  // namespace
}  // namespace xstage::bench::bench_row_test
