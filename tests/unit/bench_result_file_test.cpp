#include "report/result_file.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "report/code_record.hpp"
#include "unit/bench_row_support.hpp"

namespace xstage::bench::bench_result_file_test {
namespace {

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
  document["rows"] = rows_json(measured_rows({{"alone", {1, 2}}, {"fused", {3, 4}}}));
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
}  // namespace xstage::bench::bench_result_file_test
