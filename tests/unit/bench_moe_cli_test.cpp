#include <filesystem>
#include <fstream>

#include "unit/bench_cli_support.hpp"

namespace xstage::cli::bench_moe_cli_test {
namespace {

constexpr BenchVerb bench_moe{"moe"};

TEST(BenchMoeCommand, MistakesAreFoundBeforeAnyGpuIsAskedFor) {
  bench_moe.expect_mistake({"--shapes", "GPT"}, "--shapes: shape 'GPT'");
  bench_moe.expect_mistake({"--tokens", "4k"}, "--tokens: tokens '4k'");
  bench_moe.expect_mistake({"--routing", "zipf"}, "--routing: routing 'zipf'");
  bench_moe.expect_mistake({"--remote-share", "0.5"}, "--remote-share: remote share '0.5'");
  bench_moe.expect_mistake({"--variants", "unfused,fused"}, "--variants: variant 'fused'");
  bench_moe.expect_checked_trials();
  EXPECT_EQ(bench_moe({"--platform", "/does/not/exist.json"}).code, 3);
}

TEST(BenchMoeCommand, FilesMustBeDifferentOnes) {
  bench_moe.expect_mistake({"-o", "same.json", "--platform", "./same.json"}, "named twice");
  bench_moe.expect_mistake({"--write-routing", "same", "-o", "./same"}, "named twice");
}

TEST(BenchMoeCommand, HelpListsItsOptions) {
  bench_moe.expect_help(
      {"--shapes", "--tokens", "--routing", "--remote-share", "--variants", "--platform", "--write-routing",
       "unfused,unfused_rows,dispatch,linear1,linear2,combine,combine_rows,dispatch_local,combine_local"});
}

TEST(BenchMoeCommand, RoutingsAreWrittenWithoutAnyGpu) {
  const std::filesystem::path file = std::filesystem::path(testing::TempDir()) / "bench_moe_cli_test.routings";
  const Answer answer =
      bench_moe({"--shapes", "GLM-5", "--tokens", "16", "--devices", "0,1", "--write-routing", file.c_str()});
  EXPECT_EQ(answer.code, 0) << answer.err;
  EXPECT_THAT(answer.out, testing::HasSubstr("2 routings of 2 ranks"));
  std::ifstream stream(file, std::ios::binary);
  std::string header;
  std::getline(stream, header);
  EXPECT_THAT(header, testing::HasSubstr("xstage.routings/1"));
  const auto body = std::filesystem::file_size(file) - header.size() - 1;
  EXPECT_EQ(body, 2U * 2 * 16 * 8 * 8);
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace xstage::cli::bench_moe_cli_test
