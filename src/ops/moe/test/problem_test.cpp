// Rules of a mixture-of-experts layer: each violation names the value and the rule.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "ops/moe/packing.hpp"
#include "ops/moe/problem.hpp"
#include "xstage/error.hpp"

namespace xstage::moe::problem_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Problem valid() {
  Problem problem;
  problem.hidden = 2048;
  problem.intermediate = 768;
  problem.experts_per_rank = 16;
  problem.top_k = 8;
  problem.most_tokens = 1024;
  return problem;
}

template <typename Function>
std::string complaint(Function&& function) {
  try {
    function();
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

std::string refusal(const std::function<void(Problem&)>& change, int world = 2) {
  Problem problem = valid();
  change(problem);
  return complaint([&] { check_problem(problem, world); });
}

TEST(MoeProblem, ValidOnesPass) {
  for (const int world : {1, 2, 3, 5, 8}) {
    for (const int width : {64, 192, 16384}) {
      EXPECT_EQ(refusal([=](Problem& problem) { problem.hidden = problem.intermediate = width; }, world), "");
    }
    EXPECT_EQ(refusal([=](Problem& problem) { problem.experts_per_rank = 256; }, world), "");
    EXPECT_EQ(refusal([=](Problem& problem) { problem.top_k = 16; }, world), "");
    EXPECT_EQ(refusal([=](Problem& problem) { problem.most_tokens = 1; }, world), "");
  }
  EXPECT_EQ(refusal([](Problem& problem) { problem.clamp = 7; }), "");
}

TEST(MoeProblem, RanksAreOneToEight) {
  for (const int world : {-1, 0, 9}) {
    EXPECT_THAT(refusal([](Problem&) {}, world),
                AllOf(HasSubstr(std::to_string(world) + " ranks"), HasSubstr("1 to 8")));
  }
}

TEST(MoeProblem, WidthsAreMultiplesOf64) {
  for (const int value : {-64, 0, 32, 65, 100, 2080, 16448}) {
    const std::string rule = " is " + std::to_string(value) + ": it must be a multiple of 64 between 64 and 16384";
    EXPECT_THAT(refusal([=](Problem& problem) { problem.hidden = value; }), HasSubstr("hidden" + rule));
    EXPECT_THAT(refusal([=](Problem& problem) { problem.intermediate = value; }), HasSubstr("intermediate" + rule));
  }
}

TEST(MoeProblem, NumbersAreInRange) {
  for (const int value : {-1, 0, 257}) {
    EXPECT_THAT(refusal([=](Problem& problem) { problem.experts_per_rank = value; }),
                HasSubstr("experts_per_rank is " + std::to_string(value) + ": it must be between 1 and 256"));
  }
  for (const int value : {-1, 0, 17}) {
    EXPECT_THAT(refusal([=](Problem& problem) { problem.top_k = value; }),
                HasSubstr("top_k is " + std::to_string(value) + ": it must be between 1 and 16"));
  }
  for (const int value : {-1, 0, (1 << 24) + 1}) {
    EXPECT_THAT(refusal([=](Problem& problem) { problem.most_tokens = value; }),
                HasSubstr("most_tokens is " + std::to_string(value) + ": it must be between 1 and 16777216"));
  }
  for (const float value : {-1.0F, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    EXPECT_THAT(refusal([=](Problem& problem) { problem.clamp = value; }), HasSubstr("clamp is "));
  }
}

TEST(MoeProblem, TokensHaveEnoughExperts) {
  const auto set = [](Problem& problem) { problem.experts_per_rank = 3; };
  EXPECT_THAT(refusal(set, 2), HasSubstr("top_k is 8: there are 6 experts (2 ranks of 3)"));
  EXPECT_EQ(refusal(set, 3), "");
}

TEST(MoeProblem, RowsAreCountedIn32Bits) {
  const auto set = [](int tokens) { return [=](Problem& problem) { problem.most_tokens = tokens; }; };
  EXPECT_EQ(refusal(set(1 << 24), 8), "");
  const auto sixteen = [](Problem& problem) {
    problem.most_tokens = (1 << 23) + 1;
    problem.top_k = 16;
  };
  EXPECT_THAT(refusal(sixteen, 8), HasSubstr("8388609 * 16 * 8: it must be at most 1073741824"));
}

TEST(MoeProblem, NoMoreTokensThanTheHeapIsMadeFor) {
  for (const int tokens : {0, 1, 1024}) {
    EXPECT_EQ(complaint([=] { check_tokens(valid(), tokens); }), "");
  }
  for (const int tokens : {-1, 1025}) {
    EXPECT_THAT(complaint([=] { check_tokens(valid(), tokens); }),
                AllOf(HasSubstr("tokens is " + std::to_string(tokens)), HasSubstr("between 0 and 1024")));
  }
}

// ---- routing

struct HostRouting {
  std::vector<std::int32_t> experts = std::vector<std::int32_t>(24, 5);
  std::vector<float> weights = std::vector<float>(24, 0.125F);
};

std::string routing_refusal(const std::function<void(HostRouting&)>& change) {
  HostRouting routing;
  change(routing);
  return complaint([&] { check_routing(valid(), 2, routing.experts, routing.weights); });
}

TEST(MoeProblem, ValidRoutingPasses) {
  EXPECT_EQ(routing_refusal([](HostRouting&) {}), "");
  EXPECT_EQ(routing_refusal([](HostRouting& routing) {
              routing.experts[0] = -1;
              routing.experts[1] = 0;
              routing.experts[23] = 31;
              routing.weights[23] = -2;
            }),
            "");
  EXPECT_EQ(routing_refusal([](HostRouting& routing) {
              routing.experts.clear();
              routing.weights.clear();
            }),
            "");
}

TEST(MoeProblem, ExpertIdsAreInRange) {
  for (const int expert : {-2, 32, std::numeric_limits<int>::min(), std::numeric_limits<int>::max()}) {
    EXPECT_THAT(routing_refusal([=](HostRouting& routing) { routing.experts[19] = expert; }),
                AllOf(HasSubstr("token 2, choice 3: expert " + std::to_string(expert) + ":"),
                      HasSubstr("between 0 and 31 (2 ranks of 16 experts), or -1")));
  }
}

TEST(MoeProblem, RouterWeightsAreFinite) {
  for (const float weight : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                             -std::numeric_limits<float>::infinity()}) {
    const auto change = [=](HostRouting& routing) { routing.weights[8] = weight; };
    EXPECT_THAT(routing_refusal(change), AllOf(HasSubstr("token 1, choice 0: router weight "), HasSubstr("finite")));
    EXPECT_EQ(routing_refusal([=](HostRouting& routing) {
                change(routing);
                routing.experts[8] = -1;
              }),
              "")
        << "a weight that is not read";
  }
}

TEST(MoeProblem, RoutingHasTheRightSize) {
  EXPECT_THAT(routing_refusal([](HostRouting& routing) { routing.weights.pop_back(); }),
              HasSubstr("24 expert ids and 23 router weights"));
  EXPECT_THAT(routing_refusal([](HostRouting& routing) {
                routing.experts.resize(25);
                routing.weights.resize(25);
              }),
              HasSubstr("25 expert ids: they must be a multiple of top_k, 8"));
  EXPECT_THAT(routing_refusal([](HostRouting& routing) {
                routing.experts.resize(1025 * 8);
                routing.weights.resize(1025 * 8);
              }),
              HasSubstr("tokens is 1025"));
}

TEST(MoeProblem, OperationsAreThoseOfThreeMatrices) {
  EXPECT_EQ(flops(valid(), 10), 2.0 * 3 * 10 * 2048 * 768);
  EXPECT_EQ(flops(valid(), 0), 0);
}

TEST(MoePacking, GateAndUpAlternateByEightRows) {
  EXPECT_EQ(packed_gate_row(0), 0);
  EXPECT_EQ(packed_gate_row(7), 7);
  EXPECT_EQ(packed_up_row(0), 8);
  EXPECT_EQ(packed_gate_row(8), 16);
  EXPECT_EQ(packed_up_row(13), 29);
  std::set<std::int64_t> rows;
  for (std::int64_t row = 0; row < 192; ++row) {
    rows.insert({packed_gate_row(row), packed_up_row(row)});
  }
  EXPECT_EQ(rows.size(), 384U);
  EXPECT_EQ(*rows.rbegin(), 383);
}

/// Ranks that disagree on any of these would corrupt each other's results, or measure something else.
TEST(MoeProblem, StatementsDifferWhereRanksMustAgree) {
  const Plan plan;
  std::set<std::string> statements{statement(valid(), plan)};
  const std::function<void(Problem&)> changes[] = {
      [](Problem& problem) { problem.hidden += 64; },
      [](Problem& problem) { problem.intermediate += 64; },
      [](Problem& problem) { ++problem.experts_per_rank; },
      [](Problem& problem) { ++problem.top_k; },
      [](Problem& problem) { ++problem.most_tokens; },
      [](Problem& problem) { problem.clamp = 7; },
      [](Problem& problem) { problem.clamp = std::nextafter(7.0F, 8.0F); },
  };
  for (const auto& change : changes) {
    Problem problem = valid();
    change(problem);
    EXPECT_TRUE(statements.insert(statement(problem, plan)).second) << statement(problem, plan);
  }
  EXPECT_TRUE(statements.insert(statement(valid(), Plan{Schedule::unfused, 66})).second);
  EXPECT_TRUE(statements.insert(statement(valid(), Plan{Schedule::unfused, 0, Combine::rows})).second);
}

}  // namespace
}  // namespace xstage::moe::problem_test
