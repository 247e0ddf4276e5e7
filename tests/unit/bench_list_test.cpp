// `xstage bench NAME --list`: the rows of a table and the plans of today's rule, without a GPU.

#include <map>
#include <set>

#include "cli/json_output.hpp"
#include "ops/attention/bench/rows.hpp"
#include "ops/attention/problem.hpp"
#include "ops/gemm/bench/rows.hpp"
#include "ops/gemm/layout.hpp"
#include "unit/bench_cli_support.hpp"

namespace xstage::cli::bench_list_test {
namespace {

Json rows_of(std::vector<const char*> words) {
  words.push_back("--list");
  const Answer answer = run_bench(std::move(words));
  EXPECT_EQ(answer.code, 0) << answer.err;
  return Json::parse(answer.out).at("rows");
}

std::map<std::string, int> rows_by_variant(const Json& rows) {
  std::map<std::string, int> counts;
  for (const Json& row : rows) {
    ++counts[row.at("variant").get<std::string>()];
  }
  return counts;
}

TEST(BenchList, EveryRowOfOursHasItsPlan) {
  for (const char* verb : {"gemm", "attention", "ulysses", "moe"}) {
    const Json rows = rows_of({verb});
    std::set<std::string> keys;
    for (const Json& row : rows) {
      EXPECT_EQ(row.contains("plan"), row.at("variant") != "cublas") << verb << row.dump();
      Json key = row;
      key.erase("plan");
      EXPECT_TRUE(keys.insert(key.dump()).second) << verb << row.dump();
    }
    EXPECT_FALSE(keys.empty()) << verb;
  }
}

TEST(BenchList, TablesAreComplete) {
  using Counts = std::map<std::string, int>;
  EXPECT_EQ(rows_by_variant(rows_of({"attention"})),
            (Counts{{"attention", 32}, {"all_to_all", 32}, {"serial", 32}, {"fused", 32}, {"local_twin", 32}}));
  EXPECT_EQ(rows_by_variant(rows_of({"ulysses"})), (Counts{{"compute", 6},
                                                           {"qkv_projection", 6},
                                                           {"attention", 6},
                                                           {"output_projection", 6},
                                                           {"fused", 6},
                                                           {"flags", 6}}));
  // Six shapes of reduce-scatter and of all-gather, four of all-reduce, five of all-to-all.
  EXPECT_EQ(rows_by_variant(rows_of({"gemm"})).at("fused"), 21);
  // Seven shapes, five numbers of tokens, two routings, two shares.
  const auto moe = rows_by_variant(rows_of({"moe", "--tokens", "decode,matrix", "--remote-share", "natural,7/8"}));
  EXPECT_EQ(moe.size(), 7U);
  EXPECT_EQ(moe.at("unfused"), 140);
  EXPECT_EQ(moe.at("combine_rows"), 140);
}

TEST(BenchList, RanksAreThoseOfTheCommand) {
  for (const Json& row : rows_of({"attention", "--shapes", "4096x24", "--devices", "0,1,2,3"})) {
    EXPECT_EQ(row.at("ranks"), 4);
  }
  EXPECT_EQ(rows_of({"moe", "--shapes", "GLM-5", "--tokens", "64", "--devices", "0"}).size(), 2U * 3);
}

TEST(BenchList, ReadsAndWritesNoFiles) {
  const char* nowhere = "/no/such/folder/file.json";
  EXPECT_EQ(rows_of({"gemm", "--shapes", "small", "--platform", nowhere, "-o", "/no/such/folder/other.json"}).size(),
            rows_of({"gemm", "--shapes", "small"}).size());
}

/// A handle completes the plan that it is given: what a row says of it must be what the rule says.
TEST(BenchList, CompletingAPlanOfTheRuleChangesNothing) {
  using namespace bench;
  constexpr int multiprocessors = 132;
  const std::vector<gemm::Operation> operations =
      parse_operations("gemm,reduce_scatter,all_gather,all_reduce,all_to_all");
  for (const GemmCell& cell : make_cells(operations, parse_shapes("table"), 2)) {
    const Plan plan = gemm::make_plan(cell.problem, cell.ranks, multiprocessors);
    EXPECT_EQ(plan_json(gemm::complete_plan(cell.problem, plan, cell.ranks, multiprocessors)), plan_json(plan))
        << cell_name(cell);
  }
  for (const AttentionCell& cell : make_attention_cells(parse_attention_shapes("table"), 2)) {
    const attention::Plan plan = attention::make_plan(cell.problem, 2, multiprocessors);
    EXPECT_EQ(plan_json(attention::complete_plan(cell.problem, plan, 2, multiprocessors)), plan_json(plan))
        << cell_name(cell);
  }
}

}  // namespace
}  // namespace xstage::cli::bench_list_test
