// Rules of a GEMM's problem: each violation names the value and the rule.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "ops/gemm/layout.hpp"
#include "xstage/error.hpp"
#include "xstage/gemm.hpp"

namespace xstage::gemm::problem_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Problem valid(Operation operation) {
  Problem problem;
  problem.operation = operation;
  problem.m = 300;
  problem.n = 768;
  problem.k = 512;
  if (operation == Operation::all_to_all) {
    problem.parts = {{4, true, true}, {1, true, true}, {1, false, false}};
  }
  return problem;
}

std::string refusal(const Problem& problem, int world) {
  try {
    check_problem(problem, world);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(GemmProblem, ValidOnesPass) {
  for (const Operation operation :
       {Operation::gemm, Operation::reduce_scatter, Operation::all_gather, Operation::all_reduce}) {
    for (const int world : {1, 2, 4, 8}) {
      EXPECT_EQ(refusal(valid(operation), world), "");
    }
  }
  EXPECT_EQ(refusal(valid(Operation::all_to_all), 1), "");
}

TEST(GemmProblem, RanksAreOneToEight) {
  for (const int world : {-1, 0, 9}) {
    EXPECT_THAT(refusal(valid(Operation::gemm), world),
                AllOf(HasSubstr(std::to_string(world) + " ranks"), HasSubstr("1 to 8")));
  }
}

TEST(GemmProblem, ExtentsAreInRange) {
  for (const std::int64_t value : {std::int64_t{-8}, std::int64_t{0}, (std::int64_t{1} << 30U) + 8}) {
    Problem problem = valid(Operation::gemm);
    problem.m = value;
    EXPECT_THAT(refusal(problem, 1),
                HasSubstr("m is " + std::to_string(value) + ": it must be between 1 and 1073741824"));
    problem = valid(Operation::gemm);
    problem.n = value;
    EXPECT_THAT(refusal(problem, 1), HasSubstr("n is " + std::to_string(value) + ": it must be between"));
    problem = valid(Operation::gemm);
    problem.k = value;
    EXPECT_THAT(refusal(problem, 1), HasSubstr("k is " + std::to_string(value) + ": it must be between"));
  }
}

TEST(GemmProblem, DepthIsDivisible) {
  for (const Operation operation : {Operation::gemm, Operation::all_gather}) {
    Problem problem = valid(operation);
    problem.k = 516;
    EXPECT_THAT(refusal(problem, 4), AllOf(HasSubstr("k is 516: it must be a multiple of 8"), HasSubstr("16 bytes")));
  }
  Problem heads = valid(Operation::all_to_all);
  heads.k = 516;
  EXPECT_THAT(refusal(heads, 1), HasSubstr("k is 516: it must be a multiple of 8"));
  for (const Operation operation : {Operation::reduce_scatter, Operation::all_reduce}) {
    Problem problem = valid(operation);
    problem.k = 520;
    EXPECT_THAT(refusal(problem, 4),
                AllOf(HasSubstr("k is 520: it must be a multiple of 32"), HasSubstr("4 ranks share it")));
    EXPECT_EQ(refusal(problem, 1), "");
  }
}

TEST(GemmProblem, ColumnsAreDivisible) {
  for (const Operation operation : {Operation::gemm, Operation::reduce_scatter, Operation::all_reduce}) {
    Problem problem = valid(operation);
    problem.n = 772;
    EXPECT_THAT(refusal(problem, 4), HasSubstr("n is 772: it must be a multiple of 8"));
  }
  Problem gather = valid(Operation::all_gather);
  gather.n = 776;
  EXPECT_THAT(refusal(gather, 4),
              AllOf(HasSubstr("n is 776: it must be a multiple of 32"), HasSubstr("4 ranks share it")));
}

TEST(GemmProblem, GatesComeInPairsOfEight) {
  Problem problem = valid(Operation::gemm);
  problem.gated = true;
  EXPECT_EQ(refusal(problem, 1), "");
  problem.n = 776;
  EXPECT_THAT(refusal(problem, 1), HasSubstr("n is 776: it must be a multiple of 16"));
  problem = valid(Operation::all_gather);
  problem.gated = true;
  problem.n = 800;
  EXPECT_THAT(refusal(problem, 4), HasSubstr("n is 800: it must be a multiple of 64"));
}

TEST(GemmProblem, NoGateBeforeASumOrAnExchange) {
  for (const auto& [operation, name] :
       {std::pair{Operation::reduce_scatter, "gemm_reduce_scatter"},
        std::pair{Operation::all_reduce, "gemm_all_reduce"}, std::pair{Operation::all_to_all, "gemm_all_to_all"}}) {
    Problem problem = valid(operation);
    problem.gated = true;
    EXPECT_THAT(refusal(problem, 1), AllOf(HasSubstr(name), HasSubstr("no gated epilogue")));
  }
}

TEST(GemmProblem, HeadsFitTheRanksAndTheColumns) {
  Problem problem = valid(Operation::all_to_all);
  EXPECT_THAT(refusal(problem, 2), HasSubstr("part 1 has 1 heads: they must be divisible by the 2 ranks"));
  problem.parts[1].heads = 2;
  EXPECT_THAT(refusal(problem, 1), AllOf(HasSubstr("896 columns"), HasSubstr("n is 768"), HasSubstr("equal")));
  problem.parts[1].heads = 0;
  EXPECT_THAT(refusal(problem, 1), HasSubstr("part 1 has 0 heads: it must have at least 1"));
  problem.parts.clear();
  EXPECT_THAT(refusal(problem, 1), HasSubstr("0 parts: it takes 1 to 3"));
  problem.parts.assign(4, {1, false, false});
  EXPECT_THAT(refusal(problem, 1), HasSubstr("4 parts: it takes 1 to 3"));
  problem = valid(Operation::all_to_all);
  problem.head_dim = 96;
  EXPECT_THAT(refusal(problem, 1), HasSubstr("head_dim is 96: it must be 64 or 128"));
}

TEST(GemmProblem, RowsAreSharedInOrderAndTheLastRanksGetLess) {
  for (int world = 1; world <= max_world; ++world) {
    for (std::int64_t m = 1; m <= 40; ++m) {
      std::int64_t next = 0;
      for (int rank = 0; rank < world; ++rank) {
        const RowRange rows = row_range(m, rank, world);
        EXPECT_EQ(rows.begin, next);
        EXPECT_GE(rows.count, 0);
        EXPECT_LE(rows.count, (m + world - 1) / world);
        next += rows.count;
      }
      EXPECT_EQ(next, m) << world << " ranks";
    }
  }
  EXPECT_EQ(row_range(3, 3, 4).count, 0);
  EXPECT_EQ(row_range(5, 2, 4).count, 1);
  EXPECT_EQ(row_range(5, 3, 4).count, 0);
}

/// Ranks that disagree on any of these would corrupt each other's results.
TEST(GemmProblem, StatementsDifferWhereRanksMustAgree) {
  const Problem problem = valid(Operation::all_to_all);
  const Plan plan = complete_plan(problem, {}, 1, 132);
  std::set<std::string> statements{statement(problem, plan)};
  std::size_t variants = 1;
  const auto expect_new = [&](const char* what, const Problem& changed, const Plan& changed_plan) {
    statements.insert(statement(changed, changed_plan));
    EXPECT_EQ(statements.size(), ++variants) << what;
    variants = statements.size();
  };
  const auto with_problem = [&](const char* what, auto change) {
    Problem changed = problem;
    change(changed);
    expect_new(what, changed, plan);
  };
  const auto with_plan = [&](const char* what, auto change) {
    Plan changed = plan;
    change(changed);
    expect_new(what, problem, changed);
  };
  with_problem("operation", [](Problem& other) { other.operation = Operation::gemm; });
  with_problem("m", [](Problem& other) { other.m = 301; });
  with_problem("n", [](Problem& other) { other.n = 1024; });
  with_problem("k", [](Problem& other) { other.k = 520; });
  with_problem("bias", [](Problem& other) { other.bias = true; });
  with_problem("activation", [](Problem& other) { other.activation = Activation::gelu; });
  with_problem("gated", [](Problem& other) { other.gated = true; });
  with_problem("heads", [](Problem& other) { other.parts[0].heads = 8; });
  with_problem("norm", [](Problem& other) { other.parts[0].norm = false; });
  with_problem("rotary", [](Problem& other) { other.parts[0].rotary = false; });
  with_problem("fp32_partials", [](Problem& other) { other.fp32_partials = true; });
  with_problem("head_dim", [](Problem& other) { other.head_dim = 64; });
  with_problem("norm_epsilon", [](Problem& other) { other.norm_epsilon = 1e-5F; });
  with_plan("issuers", [](Plan& other) { other.issuers += 2; });  // and every other field: plan_fields_test.cpp
}

TEST(GemmProblem, OperationsHaveTheNamesOfTheInterface) {
  EXPECT_EQ(operation_name(Operation::gemm), "gemm");
  EXPECT_EQ(operation_name(Operation::reduce_scatter), "gemm_reduce_scatter");
  EXPECT_EQ(operation_name(Operation::all_gather), "all_gather_gemm");
  EXPECT_EQ(operation_name(Operation::all_reduce), "gemm_all_reduce");
  EXPECT_EQ(operation_name(Operation::all_to_all), "gemm_all_to_all");
}

}  // namespace
}  // namespace xstage::gemm::problem_test
