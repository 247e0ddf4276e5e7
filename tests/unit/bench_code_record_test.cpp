/// What a results file says about the code that it measured.

#include "report/code_record.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace xstage::bench::bench_code_record_test {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view table = R"({
  "nvcc": "13.0.88", "cutlass": "4.2.0",
  "kernels": [
    {"name": "xstage::cuda::(anonymous namespace)::burst_kernel", "symbol": "_Zb", "code": "b1", "tokens": "b2"},
    {"name": "xstage::kernels::gemm_kernel<64>", "symbol": "_Zg", "code": "g1", "tokens": "g2"},
    {"name": "xstage::kernels::pack_kernel", "symbol": "_Zp", "code": "p1", "tokens": "p2"}],
  "sources": {}, "timing": {"gemm": "t1", "calibration": "t2"}})";

TEST(BenchCodeRecord, NamesWhatRan) {
  const Json record = code_record(table, "gemm", {"_Zp", "_Zg"});
  EXPECT_EQ(record, Json::parse(R"({"nvcc": "13.0.88", "cutlass": "4.2.0",
    "kernels": {"xstage::kernels::gemm_kernel<64>": "g1", "xstage::kernels::pack_kernel": "p1"},
    "kernel_tokens": {"xstage::kernels::gemm_kernel<64>": "g2", "xstage::kernels::pack_kernel": "p2"},
    "timing": "t1"})"));
}

TEST(BenchCodeRecord, KernelThatTheTableLacksHasNoHash) {
  const Json record = code_record(table, "gemm", {"_Zg", "_Zstranger"});
  EXPECT_EQ(record.at("kernels"), Json::parse(R"({"_Zstranger": null, "xstage::kernels::gemm_kernel<64>": "g1"})"));
}

TEST(BenchCodeRecord, BenchWithoutTimingHash) {
  EXPECT_TRUE(code_record(table, "unknown", {"_Zg"}).at("timing").is_null());
}

TEST(BenchCodeRecord, BuildWithoutTableHasNone) {
  EXPECT_TRUE(code_record("", "gemm", {"_Zg"}).is_null());
  EXPECT_TRUE(code_record("{}", "gemm", {"_Zg"}).is_null());
  EXPECT_TRUE(calibration_kernels("").empty());
  EXPECT_TRUE(calibration_kernels("{}").empty());
}

TEST(BenchCodeRecord, CalibrationRunsTheKernelsOfTheCudaNode) {
  EXPECT_EQ(calibration_kernels(table), std::vector<std::string>{"_Zb"});
}

TEST(BenchRowsHash, OfValuesNotOfTheirText) {
  const std::string hash = rows_hash(Json::parse(R"([{"a": 1, "b": [1.5, true, null, "x"]}])"));
  EXPECT_EQ(hash.size(), 16U);
  EXPECT_EQ(rows_hash(Json::parse(R"([{"b":[15e-1,true,null,"x"],"a":1.0}])")), hash);
  for (const char* other : {R"([{"a": 2, "b": [1.5, true, null, "x"]}])", R"([{"a": 1, "b": [1.5, true, null, "y"]}])",
                            R"([{"a": 1, "b": [1.5, true, "x", null]}])", R"([{"a": 1, "b": [1.5, false, null, "x"]}])",
                            R"([{"a": 1, "c": [1.5, true, null, "x"]}])", R"([{"a": 1}])", R"([])"}) {
    EXPECT_NE(rows_hash(Json::parse(other)), hash) << other;
  }
}

TEST(BenchRowsHash, AsTheScriptsHaveIt) {
  // rows_hash of scripts/fingerprints.py; tests/smoke/check_results_test.py holds it to the same value.
  const Json rows = Json::parse(R"([{"variant": "fused", "microseconds": 3.25, "trials": 7, "\u00fc": [null, true]}])");
  EXPECT_EQ(rows_hash(rows), "054c105282c1cdb9");
}

TEST(BenchRowsHash, NotANumberIsNull) {
  EXPECT_EQ(rows_hash(Json::array({std::nan("")})), rows_hash(Json::array({nullptr})));
}

}  // namespace
}  // namespace xstage::bench::bench_code_record_test
