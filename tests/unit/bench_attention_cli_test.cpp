#include "unit/bench_cli_support.hpp"

namespace xstage::cli::bench_attention_cli_test {
namespace {

constexpr BenchVerb bench_attention{"attention"};

TEST(BenchAttentionCommand, MistakesAreFoundBeforeAnyGpuIsAskedFor) {
  bench_attention.expect_mistake({"--shapes", "8192"}, "--shapes: shape '8192'");
  bench_attention.expect_mistake({"--variants", "attention,alone"}, "'alone'");
  bench_attention.expect_checked_trials();
  EXPECT_EQ(bench_attention({"--ops", "gemm"}).code, 2);
}

TEST(BenchAttentionCommand, MistakesInAPlanAreMistakesOfUsage) {
  bench_attention.expect_mistake(
      {"--plan", "issuers=100,window=2"},
      "--plan: 'window=2': there is no such field; the fields are store_path, drain_gb_per_s,");
  for (const char* plan : {"split=1,split=1", "split", "split=", "split=yes", "store_path=store8", ""}) {
    EXPECT_EQ(bench_attention({"--plan", plan}).code, 2) << plan;
  }
  EXPECT_EQ(bench_attention({"--plan", "split=0", "--platform", "no/such/profile.json"}).code, 3);
}

TEST(BenchAttentionCommand, SpansAreOfSomeVariantsOnly) {
  bench_attention.expect_mistake({"--spans", "--variants", "attention,serial"},
                                 "--spans: none of the variants attention,serial is recorded");
  // A trace implies spans.
  bench_attention.expect_mistake({"--trace", "trace.json", "--variants", "attention,serial"},
                                 "--trace: none of the variants attention,serial is recorded");
  bench_attention.expect_mistake({"--trace", "trace.json", "--variants", "attention,local_twin"},
                                 "--trace: a trace is of the variant fused");
  // Read and found good: what is missing now is the profile.
  const char* no_profile = "no/such/profile.json";
  EXPECT_EQ(bench_attention({"--spans", "--variants", "local_twin", "--platform", no_profile}).code, 3);
  EXPECT_EQ(bench_attention({"--trace", "trace.json", "--platform", no_profile}).code, 3);
}

TEST(BenchAttentionCommand, FilesMustBeDifferentOnes) {
  bench_attention.expect_mistake({"-o", "same.json", "--trace", "./same.json"}, "named twice");
  bench_attention.expect_mistake({"--platform", "profile.json", "--trace", "profile.json"}, "named twice");
}

TEST(BenchAttentionCommand, HelpListsItsOptions) {
  bench_attention.expect_help({"--shapes", "--variants", "--plan", "--spans", "--trace", "store_interval_ns",
                               "attention,all_to_all,serial,fused,fused_sent,local_twin"});
}

}  // namespace
}  // namespace xstage::cli::bench_attention_cli_test
