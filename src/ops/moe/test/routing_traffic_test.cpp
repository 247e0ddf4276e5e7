// The routing generator: choices of experts on other ranks, and how they are counted.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "ops/moe/bench/routing.hpp"
#include "ops/moe/bench/routing_counts.hpp"
#include "ops/moe/test/routing_request.hpp"

namespace xstage::moe::routing_traffic_test {
namespace {

using testing::ElementsAre;

TEST(MoeRouting, RemoteShareIsKept) {
  for (const Skew skew : {Skew::balanced, Skew::zipf, Skew::one_expert}) {
    for (const int world : {2, 3, 8}) {
      for (const Share share : {Share{1, 2}, Share{7, 8}, Share{0, 1}, Share{1, 1}}) {
        for (const int top_k : {1, 6, 8, 10}) {
          const std::vector<std::int64_t> tokens(static_cast<std::size_t>(world), 200);
          const Routing routing = make_routing(request_of(16, top_k, tokens, skew, share));
          for (int rank = 0; rank < world; ++rank) {
            const Traffic traffic = traffic_of(routing, rank);
            EXPECT_EQ(traffic.choices, 200 * top_k);
            EXPECT_EQ(traffic.remote, 200 * top_k * share.part / share.of);
            check_tokens_of(routing.ranks[static_cast<std::size_t>(rank)], request_of(16, top_k, tokens, skew));
          }
        }
      }
    }
  }
}

TEST(MoeRouting, EachTokenHasTheRemoteShare) {
  const Routing routing = make_routing(request_of(32, 6, {100, 100}, Skew::zipf, Share{7, 8}));  // 5.25 of 6
  for (int rank = 0; rank < 2; ++rank) {
    const std::vector<std::int32_t>& experts = routing.ranks[static_cast<std::size_t>(rank)].experts;
    for (std::size_t token = 0; token < 100; ++token) {
      const auto begin = experts.begin() + static_cast<std::ptrdiff_t>(6 * token);
      EXPECT_THAT(std::count_if(begin, begin + 6, [&](std::int32_t expert) { return expert / 32 != rank; }),
                  testing::AnyOf(5, 6));
    }
  }
}

/// What the share of 7/8 on two ranks is for: as many rows come back from a peer as with eight ranks.
TEST(MoeRouting, TwoRanksReturnAsManyRowsAsEight) {
  const std::vector<std::int64_t> eight(8, 128);
  const Traffic of_eight = traffic_of(make_routing(request_of(32, 8, eight, Skew::balanced, Share{7, 8})), 3);
  const Traffic of_two = traffic_of(make_routing(request_of(32, 8, {128, 128}, Skew::balanced, Share{7, 8})), 1);
  EXPECT_EQ(of_eight.returned, 128 * 7);
  EXPECT_EQ(of_two.returned, 128 * 7);
  EXPECT_EQ(of_two.partial_sums, 128);
  EXPECT_EQ(of_eight.partial_sums, of_eight.returned) << "experts of a token are on different ranks";
  EXPECT_EQ(of_two.copies, 128);  // one for each token, whatever number of its experts is there
  EXPECT_EQ(of_eight.copies, 128 * 7);
}

TEST(MoeRouting, BalancedWithRemoteShare) {
  for (const int world : {2, 3, 8}) {
    for (const int experts : {16, 31}) {
      for (const Share share : {Share{1, 2}, Share{7, 8}}) {
        const std::vector<std::int64_t> tokens(static_cast<std::size_t>(world), 333);
        const std::vector<std::int64_t> loads =
            expert_loads(make_routing(request_of(experts, 6, tokens, Skew::balanced, share)));
        EXPECT_LE(largest(loads) - least(loads), 1) << world << " ranks of " << experts << ", " << share.part;
      }
    }
  }
  // Unequal ranks: on each rank.
  const std::vector<std::int64_t> loads =
      expert_loads(make_routing(request_of(16, 6, {500, 20}, Skew::balanced, Share{7, 8})));
  for (const int begin : {0, 16}) {
    const std::vector<std::int64_t> of_rank(loads.begin() + begin, loads.begin() + begin + 16);
    EXPECT_LE(largest(of_rank) - least(of_rank), 1);
  }
}

// ---- counts

Routing small_routing() {
  Routing routing{2, 2, 2, {}};
  routing.ranks.push_back({3, {0, 2, 3, 2, -1, 1}, {}});
  routing.ranks.push_back({1, {3, 0}, {}});
  return routing;
}

TEST(MoeRoutingCounts, ByHand) {
  const Routing routing = small_routing();
  EXPECT_THAT(expert_loads(routing), ElementsAre(2, 1, 2, 2));
  const auto rows = dispatched(routing, 1);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_THAT(rows[0], ElementsAre(Choice{0, 0, 1}, Choice{0, 1, 1}));
  EXPECT_THAT(rows[1], ElementsAre(Choice{0, 1, 0}, Choice{1, 0, 0}));
  const Traffic first = traffic_of(routing, 0);
  EXPECT_EQ(first.choices, 5);
  EXPECT_EQ(first.remote, 3);
  EXPECT_EQ(first.copies, 2) << "token 1 needs rank 1 twice";
  EXPECT_EQ(first.returned, 1);
  EXPECT_EQ(first.partial_sums, 1);
  const Traffic second = traffic_of(routing, 1);
  EXPECT_EQ(second.choices, 2);
  EXPECT_EQ(second.remote, 1);
  EXPECT_EQ(second.copies, 1);
  EXPECT_EQ(second.returned, 3);
  EXPECT_EQ(second.partial_sums, 2) << "two choices of token 1 are one row";
}

}  // namespace
}  // namespace xstage::moe::routing_traffic_test
