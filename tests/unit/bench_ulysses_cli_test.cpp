#include "unit/bench_cli_support.hpp"

namespace xstage::cli::bench_ulysses_cli_test {
namespace {

constexpr BenchVerb bench_ulysses{"ulysses"};

TEST(BenchUlyssesCommand, MistakesAreFoundBeforeAnyGpuIsAskedFor) {
  bench_ulysses.expect_mistake({"--shapes", "8192"}, "--shapes: shape '8192'");
  bench_ulysses.expect_mistake({"--variants", "compute,serial"}, "--variants: variant 'serial'");
  bench_ulysses.expect_checked_trials();
  EXPECT_EQ(bench_ulysses({"--plan", "split=0"}).code, 2);
}

TEST(BenchUlyssesCommand, HelpListsItsOptions) {
  bench_ulysses.expect_help(
      {"--shapes", "--variants", "compute,qkv_projection,attention,output_projection,fused,flags"});
}

}  // namespace
}  // namespace xstage::cli::bench_ulysses_cli_test
