#include "bench/result_file.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "bench/code_record.hpp"
#include "bench/gemm_row.hpp"

namespace xstage::bench {
namespace {

using gemm::Operation;

GemmRow row_of(const char* variant, std::vector<double> trials_us) {
  GemmRow row;
  row.cell = make_cells({Operation::reduce_scatter}, parse_shapes("2048x4096x4096"), 2).front();
  row.times = {variant, 100, 60.0, std::move(trials_us)};
  row.l2 = "inputs rotate over 3 sets";
  return row;
}

NodeDescription node_of_three() {
  NodeDescription node;
  node.devices = {{"GPU zero", 132, 90, 0, 1980.0}, {"GPU one", 132, 90, 0, 1980.0}, {"GPU two", 132, 90, 0, 1980.0}};
  node.links = "18 NVLink, 26.56 GB/s each";
  node.driver = "580.0";
  node.cuda = "13.0";
  node.commit = "0123456";
  node.command = "xstage bench gemm";
  node.date = "2026-11-30T00:00:00Z";
  return node;
}

TEST(BenchRows, RatiosAreAgainstTheFasterOfBoth) {
  std::vector<GemmRow> rows{row_of("cublas", {50, 52, 54, 50, 52, 54, 52}),
                            row_of("alone", {48, 50, 52, 48, 50, 52, 50}),
                            row_of("fused", {60, 62.5, 65, 60, 62.5, 65, 62.5})};
  add_ratios(rows);
  EXPECT_FALSE(rows[0].ratio.has_value());
  EXPECT_EQ(rows[1].ratio_to, "cublas");
  EXPECT_LT(rows[1].ratio->ratio, 1);
  EXPECT_EQ(rows[2].ratio_to, "alone");
  EXPECT_DOUBLE_EQ(rows[2].ratio->ratio, 1.25);
  EXPECT_DOUBLE_EQ(rows[2].ratio->high, 1.25);
}

TEST(BenchRows, WithoutCublasOurGemmIsTheYardstick) {
  std::vector<GemmRow> rows{row_of("alone", {50}), row_of("fused", {60})};
  add_ratios(rows);
  EXPECT_FALSE(rows[0].ratio.has_value());
  EXPECT_EQ(rows[1].ratio_to, "alone");
  EXPECT_DOUBLE_EQ(rows[1].ratio->ratio, 1.2);
}

TEST(BenchRows, RowSaysWhatTheSchemaAsksFor) {
  GemmRow row = row_of("fused", {60, 70, 80});
  row.ratio_to = "cublas";
  row.ratio = PairedRatio{1.25, std::nan(""), std::nan("")};
  row.plan = Plan{};
  row.largest_error = 0.5;
  const Json json = row_json(row);
  EXPECT_EQ(json.at("op"), "gemm_reduce_scatter");
  EXPECT_EQ(json.at("m"), 2048);
  EXPECT_EQ(json.at("n"), 4096);
  EXPECT_EQ(json.at("k"), 4096);  // of the whole problem
  EXPECT_EQ(json.at("ranks"), 2);
  EXPECT_EQ(json.at("variant"), "fused");
  EXPECT_DOUBLE_EQ(json.at("microseconds").get<double>(), 70);
  EXPECT_DOUBLE_EQ(json.at("p5").get<double>(), 61);
  EXPECT_DOUBLE_EQ(json.at("p95").get<double>(), 79);
  EXPECT_EQ(json.at("trials"), 3);
  EXPECT_EQ(json.at("trials_us"), Json({60.0, 70.0, 80.0}));
  EXPECT_NEAR(json.at("tflops").get<double>(), 2.0 * 2048 * 4096 * 2048 / 70e6,
              1e-3);  // of one rank
  EXPECT_TRUE(json.at("ratio_low").is_null());
  EXPECT_EQ(json.at("plan").at("cluster"), "2x1");
  for (const char* pacing : {"drain_gb_per_s", "store_rows", "window", "store_interval_ns", "push_interval_ns"}) {
    EXPECT_TRUE(json.at("plan").contains(pacing)) << pacing;
  }
  EXPECT_FALSE(json.contains("heads"));
}

TEST(BenchRows, KeysAreUnique) {
  EXPECT_EQ(rows_json({row_of("alone", {1}), row_of("fused", {1})}).size(), 2U);
  EXPECT_THROW(static_cast<void>(rows_json({row_of("fused", {1}), row_of("fused", {2})})), std::logic_error);
}

TEST(BenchResultFile, NamesTheDevicesThatWereUsed) {
  const NodeDescription node = node_of_three();
  const auto all = result_document("gemm", node);
  EXPECT_EQ(all.at("schema"), "xstage.bench/1");
  EXPECT_EQ(all.at("hardware").at("gpus").size(), 3U);
  const auto some = result_document("gemm", node, {2, 0});
  EXPECT_EQ(some.at("hardware").at("gpus"), nlohmann::ordered_json({"GPU two", "GPU zero"}));
  EXPECT_EQ(some.at("commit"), "0123456");
}

TEST(BenchResultFile, TextIsTheDocumentWithOneRowALine) {
  auto document = result_document("gemm", node_of_three());
  document["rows"] = rows_json({row_of("alone", {1, 2}), row_of("fused", {3, 4})});
  const std::string text = format_result_file(document);
  const auto with_hash = [](nlohmann::ordered_json one) {
    one["rows_hash"] = rows_hash(one.at("rows"));
    return nlohmann::json(one);  // whatever the order of fields
  };
  EXPECT_EQ(nlohmann::json::parse(text), with_hash(document));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1 + 8 + 1 + 2 + 1);
  document["rows"] = nlohmann::ordered_json::array();
  EXPECT_EQ(nlohmann::json::parse(format_result_file(document)), with_hash(document));
}

}  // namespace
}  // namespace xstage::bench
