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
  words.insert(words.begin(), {"xstage", "bench", "ulysses"});
  std::ostringstream out;
  std::ostringstream err;
  const int code = run(static_cast<int>(words.size()), words.data(), out, err, false);
  return {code, out.str(), err.str()};
}

TEST(BenchUlyssesCommand, MistakesAreFoundBeforeAnyGpuIsAskedFor) {
  const Answer shape = run_bench({"--shapes", "8192"});
  EXPECT_EQ(shape.code, 2);
  EXPECT_THAT(shape.err, HasSubstr("--shapes: shape '8192'"));
  const Answer variant = run_bench({"--variants", "compute,serial"});
  EXPECT_EQ(variant.code, 2);
  EXPECT_THAT(variant.err, HasSubstr("--variants: variant 'serial'"));
  EXPECT_EQ(run_bench({"--trials", "0"}).code, 2);
  EXPECT_EQ(run_bench({"--trials", "10001"}).code, 2);
  EXPECT_EQ(run_bench({"--plan", "split=0"}).code, 2);
}

TEST(BenchUlyssesCommand, HelpListsItsOptions) {
  const Answer help = run_bench({"--help"});
  EXPECT_EQ(help.code, 0);
  for (const char* word : {"--shapes", "--variants", "--devices", "--trials", "--output", "--verify", "--json",
                           "compute,qkv_projection,attention,output_projection,fused,flags"}) {
    EXPECT_THAT(help.out, HasSubstr(word));
  }
}

}  // namespace
}  // namespace xstage::cli
