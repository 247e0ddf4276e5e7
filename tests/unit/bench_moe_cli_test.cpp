#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
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
  words.insert(words.begin(), {"xstage", "bench", "moe"});
  std::ostringstream out;
  std::ostringstream err;
  const int code = run(static_cast<int>(words.size()), words.data(), out, err, false);
  return {code, out.str(), err.str()};
}

TEST(BenchMoeCommand, MistakesAreFoundBeforeAnyGpuIsAskedFor) {
  const std::vector<std::pair<std::vector<const char*>, const char*>> mistakes{
      {{"--shapes", "GPT"}, "--shapes: shape 'GPT'"},
      {{"--tokens", "4k"}, "--tokens: tokens '4k'"},
      {{"--routing", "zipf"}, "--routing: routing 'zipf'"},
      {{"--remote-share", "0.5"}, "--remote-share: remote share '0.5'"},
      {{"--variants", "unfused,fused"}, "--variants: variant 'fused'"},
      {{"--trials", "0"}, "--trials 0"}};
  for (const auto& [words, message] : mistakes) {
    const Answer answer = run_bench(words);
    EXPECT_EQ(answer.code, 2) << message;
    EXPECT_THAT(answer.err, HasSubstr(message));
  }
  EXPECT_EQ(run_bench({"--platform", "/does/not/exist.json"}).code, 3);
}

TEST(BenchMoeCommand, HelpListsItsOptions) {
  const Answer help = run_bench({"--help"});
  EXPECT_EQ(help.code, 0);
  for (const char* word :
       {"--shapes", "--tokens", "--routing", "--remote-share", "--variants", "--devices", "--trials", "--output",
        "--platform", "--write-routing", "--verify", "--json", "unfused,dispatch,linear1,linear2,combine"}) {
    EXPECT_THAT(help.out, HasSubstr(word));
  }
}

TEST(BenchMoeCommand, RoutingsAreWrittenWithoutAnyGpu) {
  const std::filesystem::path file = std::filesystem::path(::testing::TempDir()) / "bench_moe_cli_test.routings";
  const Answer answer =
      run_bench({"--shapes", "GLM-5", "--tokens", "16", "--devices", "0,1", "--write-routing", file.c_str()});
  EXPECT_EQ(answer.code, 0) << answer.err;
  EXPECT_THAT(answer.out, HasSubstr("2 routings of 2 ranks"));
  std::ifstream stream(file, std::ios::binary);
  std::string header;
  std::getline(stream, header);
  EXPECT_THAT(header, HasSubstr("xstage.routings/1"));
  const auto body = std::filesystem::file_size(file) - header.size() - 1;
  EXPECT_EQ(body, 2U * 2 * 16 * 8 * 8);
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace xstage::cli
