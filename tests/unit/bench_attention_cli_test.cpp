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

TEST(BenchAttentionCommand, HelpListsItsOptions) {
  const Answer help = run_bench({"--help"});
  EXPECT_EQ(help.code, 0);
  for (const char* word :
       {"--shapes", "--variants", "--devices", "--trials", "--output", "--verify", "--json", "--plan",
        "store_interval_ns", "attention,all_to_all,serial,fused,fused_arrived,local_twin"}) {
    EXPECT_THAT(help.out, HasSubstr(word));
  }
}

}  // namespace
}  // namespace xstage::cli
