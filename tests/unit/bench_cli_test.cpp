#include "unit/bench_cli_support.hpp"

namespace xstage::cli::bench_cli_test {
namespace {

constexpr BenchVerb bench_gemm{"gemm"};

TEST(BenchCommand, MistakesAreFoundBeforeAnyGpuIsAskedFor) {
  bench_gemm.expect_mistake({"--ops", "gemm,broadcast"}, "'broadcast'");
  bench_gemm.expect_mistake({"--shapes", "8192x8192"}, "'8192x8192'");
  bench_gemm.expect_mistake({"--variants", "cublas,serial"}, "--variants: variant 'serial'");
  bench_gemm.expect_mistake({"--sustained", "some"}, "--sustained: sustained 'some': one of none, readme, all");
  bench_gemm.expect_checked_trials();
  EXPECT_EQ(bench_gemm({"--platform", "no/such/profile.json"}).code, 3);
  bench_gemm.expect_mistake({"-o", "same.json", "--trace", "./same.json"}, "named twice");
  bench_gemm.expect_mistake({"--platform", "profile.json", "--trace", "profile.json"}, "named twice");
  EXPECT_EQ(run_bench({}).code, 2);
  EXPECT_EQ(run_bench({"convolution"}).code, 2);
}

TEST(BenchCommand, MistakesInAPlanAreMistakesOfUsage) {
  bench_gemm.expect_mistake(
      {"--plan", "window=2,split=1"},
      "--plan: 'split=1': there is no such field; the fields are store_path, drain_gb_per_s, store_rows, window,");
  for (const char* plan : {"window=2,window=2", "window", "window=", "window=two", "gather=pull", ""}) {
    EXPECT_EQ(bench_gemm({"--plan", plan}).code, 2) << plan;
  }
  EXPECT_EQ(bench_gemm({"--plan"}).code, 2);
  // Read and found good: what is missing now is the profile.
  EXPECT_EQ(bench_gemm({"--plan", "window=2,gather=push", "--platform", "no/such/profile.json"}).code, 3);
}

TEST(BenchCommand, HelpListsItsOptions) {
  bench_gemm.expect_help(
      {"--ops", "--shapes", "--cublas", "--platform", "--variants", "--spans", "--trace", "--plan", "drain_gb_per_s"});
}

}  // namespace
}  // namespace xstage::cli::bench_cli_test
