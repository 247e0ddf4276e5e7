// The routing generator: how choices are distributed over experts and ranks.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <vector>

#include "ops/moe/bench/expert_choice.hpp"
#include "ops/moe/bench/routing.hpp"
#include "ops/moe/bench/routing_counts.hpp"
#include "ops/moe/bench/shapes.hpp"
#include "ops/moe/test/routing_request.hpp"

namespace xstage::moe::routing_skew_test {
namespace {

using testing::ElementsAre;

TEST(MoeRouting, BalancedExpertsHaveTheSame) {
  for (const int world : {1, 2, 5, 8}) {
    for (const int experts : {2, 16, 31, 256}) {
      for (const int top_k : {1, 2, 7, 16}) {
        if (top_k > world * experts) {
          continue;
        }
        std::vector<std::int64_t> tokens{101, 0, 333, 64, 1, 7, 0, 55};
        tokens.resize(static_cast<std::size_t>(world));
        RoutingRequest request = request_of(experts, top_k, tokens, Skew::balanced);
        const std::vector<std::int64_t> loads = expert_loads(make_routing(request));
        EXPECT_LE(largest(loads) - least(loads), 1) << world << " ranks of " << experts << ", top " << top_k;
        request.masked_tokens = {1, 4};
        const std::vector<std::int64_t> masked = expert_loads(make_routing(request));
        EXPECT_LE(largest(masked) - least(masked), 1);
        EXPECT_TRUE(sum(masked) < sum(loads) || sum(loads) < 40);
      }
    }
  }
}

/// What makes it random: tokens do not all choose the same sets.
TEST(MoeRouting, BalancedSetsDiffer) {
  const Routing routing = make_routing(request_of(16, 4, {512, 512}, Skew::balanced));
  std::set<std::vector<std::int32_t>> sets;
  const std::vector<std::int32_t>& experts = routing.ranks[0].experts;
  for (auto token = experts.begin(); token != experts.end(); token += 4) {
    std::vector<std::int32_t> set(token, token + 4);
    std::sort(set.begin(), set.end());
    sets.insert(set);
  }
  EXPECT_GT(sets.size(), 480U);  // of 35960
}

// ---- Zipf

double hottest_by_mean(const std::vector<std::int64_t>& loads) {
  return static_cast<double>(largest(loads)) * static_cast<double>(loads.size()) / static_cast<double>(sum(loads));
}

TEST(MoeRouting, HottestExpertHasFourTimesTheMean) {
  for (const Shape& shape : shapes()) {
    for (const int world : {2, 8}) {
      RoutingRequest request = request_for(problem_of(shape, 4096), world, 4096);
      request.skew = Skew::zipf;
      EXPECT_NEAR(hottest_by_mean(expert_loads(make_routing(request))), 4, 0.3) << shape.name;
      request.remote_share = Share{1, 2};
      if (world == 2) {
        EXPECT_NEAR(hottest_by_mean(expert_loads(make_routing(request))), 4, 0.3) << shape.name;
      }
    }
  }
}

TEST(MoeRouting, HottestExpertHasNoMoreThanAllTokens) {
  RoutingRequest request = request_of(16, 8, {512}, Skew::zipf);  // 4 times the mean would be two choices a token
  EXPECT_GE(largest(expert_loads(make_routing(request))), 500);
  request = request_of(16, 8, {512, 512}, Skew::zipf, Share{7, 8});  // 7 of the 16 experts of the other rank
  EXPECT_GE(hottest_by_mean(expert_loads(make_routing(request))), 2);
}

/// The whole curve, not the first one only.
TEST(MoeRouting, LoadsFollowPopularity) {
  const RoutingRequest request = request_of(32, 6, {4096, 4096}, Skew::zipf);
  const std::vector<std::int64_t> loads = expert_loads(make_routing(request));
  const std::vector<std::uint64_t> popularities = zipf_popularities(64, 6);
  const auto whole = static_cast<double>(std::accumulate(popularities.begin(), popularities.end(), std::uint64_t{0}));
  const std::vector<std::int32_t> order = popularity_order(request);
  for (std::size_t place = 0; place < 64; ++place) {
    const double expected = 8192 * 6 * static_cast<double>(popularities[place]) / whole;
    EXPECT_NEAR(static_cast<double>(loads[static_cast<std::size_t>(order[place])]), expected, 5 * std::sqrt(expected))
        << place;
  }
}

TEST(MoeRouting, PopularitiesAreAPowerLaw) {
  for (const int experts : {32, 512, 2048}) {
    const std::vector<std::uint64_t> values = zipf_popularities(experts, 6);
    const auto at = [&](std::size_t place) { return static_cast<double>(values[place - 1]); };
    const double whole = std::accumulate(values.begin(), values.end(), 0.0);
    EXPECT_LE(at(1) * experts / whole, 4);
    EXPECT_GE(at(1) * experts / whole, 3.9) << experts;
    EXPECT_EQ(values.front(), 1U << 24U);
    EXPECT_NEAR(at(4), at(2) * at(2) / at(1), 2);
    EXPECT_NEAR(at(32), at(4) * at(8) / at(1), 2);
  }
  // No experts to choose between, and hardly any.
  EXPECT_THAT(zipf_popularities(2, 2), ElementsAre(1U << 24U, 1U << 24U));
  EXPECT_THAT(zipf_popularities(1, 1), ElementsAre(1U << 24U));
}

TEST(MoeRouting, HotExpertsAreSpreadOverRanks) {
  const RoutingRequest request = request_of(16, 8, {1, 1, 1, 1}, Skew::zipf);
  const std::vector<std::int32_t> order = popularity_order(request);
  EXPECT_EQ(std::set<std::int32_t>(order.begin(), order.end()).size(), 64U);
  for (std::size_t round = 0; round < 64; round += 4) {
    std::set<std::int32_t> ranks;
    for (std::size_t place = round; place < round + 4; ++place) {
      ranks.insert(order[place] / 16);
    }
    EXPECT_EQ(ranks.size(), 4U);
  }
  EXPECT_EQ(order[3] / 16, order[4] / 16) << "to and fro";
}

// ---- one expert

TEST(MoeRouting, OneExpertTakesAll) {
  const std::vector<std::int64_t> loads = expert_loads(make_routing(request_of(16, 1, {100, 0, 33}, Skew::one_expert)));
  EXPECT_EQ(largest(loads), 133);
  EXPECT_EQ(std::count(loads.begin(), loads.end(), 0), 47);
}

TEST(MoeRouting, OneRankTakesAllThatItsExpertsCan) {
  for (const int experts : {4, 8, 16}) {
    const Routing routing = make_routing(request_of(experts, 8, {100, 50, 0}, Skew::one_expert));
    const std::vector<std::int64_t> loads = expert_loads(routing);
    EXPECT_EQ(std::count(loads.begin(), loads.end(), 150), 8) << "the same eight for all tokens";
    std::vector<std::int64_t> of_rank(3);
    for (int rank = 0; rank < 3; ++rank) {
      of_rank[static_cast<std::size_t>(rank)] =
          sum({loads.begin() + rank * experts, loads.begin() + (rank + 1) * experts});
    }
    EXPECT_EQ(largest(of_rank), 150 * std::min(experts, 8));
  }
}

TEST(MoeRouting, SeedsChooseTheExpert) {
  std::set<std::size_t> hottest;
  for (std::uint64_t seed = 0; seed < 32; ++seed) {
    RoutingRequest request = request_of(8, 1, {1, 1}, Skew::one_expert);
    request.seed = seed;
    const std::vector<std::int64_t> loads = expert_loads(make_routing(request));
    hottest.insert(static_cast<std::size_t>(std::max_element(loads.begin(), loads.end()) - loads.begin()));
  }
  EXPECT_GT(hottest.size(), 8U);
}

}  // namespace
}  // namespace xstage::moe::routing_skew_test
