#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "cli/run.hpp"

namespace xstage::cli {
namespace {

using ::testing::HasSubstr;

struct Answer {
  int code;
  std::string out;
  std::string err;
};

Answer run_bench(std::vector<const char*> words) {
  words.insert(words.begin(), {"xstage", "bench", "attention"});
  std::ostringstream out;
  std::ostringstream err;
  const int code = run(static_cast<int>(words.size()), words.data(), out, err, false);
  return {code, out.str(), err.str()};
}

TEST(BenchAttentionCommand, MistakesAreFoundBeforeAnyGpuIsAskedFor) {
  const Answer shape = run_bench({"--shapes", "8192"});
  EXPECT_EQ(shape.code, 2);
  EXPECT_THAT(shape.err, HasSubstr("--shapes: shape '8192'"));
  const Answer variant = run_bench({"--variants", "attention,alone"});
  EXPECT_EQ(variant.code, 2);
  EXPECT_THAT(variant.err, HasSubstr("'alone'"));
  EXPECT_EQ(run_bench({"--trials", "0"}).code, 2);
  EXPECT_EQ(run_bench({"--trials", "10001"}).code, 2);
  EXPECT_EQ(run_bench({"--ops", "gemm"}).code, 2);
}

TEST(BenchAttentionCommand, MistakesInAPlanAreMistakesOfUsage) {
  const Answer unknown = run_bench({"--plan", "issuers=100,window=2"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("--plan: 'window=2': there is no such field; the fields are issuers, split,"));
  for (const char* plan : {"split=1,split=1", "split", "split=", "split=yes", "store_path=store8", ""}) {
    EXPECT_EQ(run_bench({"--plan", plan}).code, 2) << plan;
  }
  EXPECT_EQ(run_bench({"--plan", "split=0", "--platform", "no/such/profile.json"}).code, 3);
}

TEST(BenchAttentionCommand, SpansAreOfSomeVariantsOnly) {
  const Answer spans = run_bench({"--spans", "--variants", "attention,serial"});
  EXPECT_EQ(spans.code, 2);
  EXPECT_THAT(spans.err, HasSubstr("--spans: none of the variants attention,serial is recorded"));
  // A trace implies spans.
  const Answer trace = run_bench({"--trace", "trace.json", "--variants", "attention,serial"});
  EXPECT_EQ(trace.code, 2);
  EXPECT_THAT(trace.err, HasSubstr("--trace: none of the variants attention,serial is recorded"));
  const Answer twin = run_bench({"--trace", "trace.json", "--variants", "attention,local_twin"});
  EXPECT_EQ(twin.code, 2);
  EXPECT_THAT(twin.err, HasSubstr("--trace: a trace is of the variant fused"));
  // Read and found good: what is missing now is the profile.
  const char* no_profile = "no/such/profile.json";
  EXPECT_EQ(run_bench({"--spans", "--variants", "local_twin", "--platform", no_profile}).code, 3);
  EXPECT_EQ(run_bench({"--trace", "trace.json", "--platform", no_profile}).code, 3);
}

TEST(BenchAttentionCommand, FilesMustBeDifferentOnes) {
  const Answer same = run_bench({"-o", "same.json", "--trace", "./same.json"});
  EXPECT_EQ(same.code, 2);
  EXPECT_THAT(same.err, HasSubstr("named twice"));
  EXPECT_EQ(run_bench({"--platform", "profile.json", "--trace", "profile.json"}).code, 2);
}

TEST(BenchAttentionCommand, HelpListsItsOptions) {
  const Answer help = run_bench({"--help"});
  EXPECT_EQ(help.code, 0);
  for (const char* word :
       {"--shapes", "--variants", "--devices", "--trials", "--output", "--verify", "--json", "--plan", "--spans",
        "--trace", "store_interval_ns", "attention,all_to_all,serial,fused,fused_arrived,local_twin"}) {
    EXPECT_THAT(help.out, HasSubstr(word));
  }
}

}  // namespace
}  // namespace xstage::cli
