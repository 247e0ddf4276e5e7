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
  words.insert(words.begin(), {"xstage", "bench"});
  std::ostringstream out;
  std::ostringstream err;
  const int code = run(static_cast<int>(words.size()), words.data(), out, err, false);
  return {code, out.str(), err.str()};
}

TEST(BenchCommand, MistakesAreFoundBeforeAnyGpuIsAskedFor) {
  const Answer operation = run_bench({"gemm", "--ops", "gemm,broadcast"});
  EXPECT_EQ(operation.code, 2);
  EXPECT_THAT(operation.err, HasSubstr("'broadcast'"));
  const Answer shape = run_bench({"gemm", "--shapes", "8192x8192"});
  EXPECT_EQ(shape.code, 2);
  EXPECT_THAT(shape.err, HasSubstr("'8192x8192'"));
  EXPECT_EQ(run_bench({"gemm", "--trials", "0"}).code, 2);
  EXPECT_EQ(run_bench({"gemm", "--platform", "no/such/profile.json"}).code, 3);
  const Answer same_file = run_bench({"gemm", "-o", "same.json", "--trace", "./same.json"});
  EXPECT_EQ(same_file.code, 2);
  EXPECT_THAT(same_file.err, HasSubstr("named twice"));
  EXPECT_EQ(run_bench({"gemm", "--platform", "profile.json", "--trace", "profile.json"}).code, 2);
  EXPECT_EQ(run_bench({}).code, 2);
  EXPECT_EQ(run_bench({"convolution"}).code, 2);
}

TEST(BenchCommand, MistakesInAPlanAreMistakesOfUsage) {
  const Answer unknown = run_bench({"gemm", "--plan", "window=2,split=1"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("--plan: 'split=1': there is no such field; the fields are window, store_rows,"));
  for (const char* plan : {"window=2,window=2", "window", "window=", "window=two", "gather=pull", ""}) {
    EXPECT_EQ(run_bench({"gemm", "--plan", plan}).code, 2) << plan;
  }
  EXPECT_EQ(run_bench({"gemm", "--plan"}).code, 2);
  // Read and found good: what is missing now is the profile.
  EXPECT_EQ(run_bench({"gemm", "--plan", "window=2,gather=push", "--platform", "no/such/profile.json"}).code, 3);
}

TEST(BenchCommand, HelpListsItsOptions) {
  const Answer help = run_bench({"gemm", "--help"});
  EXPECT_EQ(help.code, 0);
  for (const char* option : {"--ops", "--shapes", "--devices", "--trials", "--output", "--cublas", "--platform",
                             "--verify", "--local-twin", "--spans", "--trace", "--json", "--plan", "drain_gb_per_s"}) {
    EXPECT_THAT(help.out, HasSubstr(option));
  }
}

}  // namespace
}  // namespace xstage::cli
