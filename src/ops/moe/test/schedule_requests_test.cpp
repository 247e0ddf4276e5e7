// The counts that tests of MoE schedules take from the generator of routings: those that dispatch brings, and of every
// kind of request.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include "ops/moe/test/schedule_requests.hpp"

namespace xstage::schedule_requests_test {
namespace {

/// Counts are as many as the rows that dispatch puts down for each expert, and no rank has more than the fullest.
TEST(MoeScheduleRequests, CountsAreTheRowsThatDispatchBrings) {
  MoeRandom random(1);
  for (int round = 0; round < 60; ++round) {
    const moe::RoutingRequest request = random_request(random, 3000);
    SCOPED_TRACE(describe(request));
    const moe::Routing routing = make_routing(request);
    std::vector<std::int64_t> rows;
    for (int rank = 0; rank < request.world; ++rank) {
      const std::vector<std::int32_t> counts = counts_of(routing, rank);
      const std::vector<std::vector<moe::Choice>> brought = dispatched(routing, rank);
      ASSERT_EQ(counts.size(), brought.size());
      for (std::size_t expert = 0; expert < counts.size(); ++expert) {
        ASSERT_EQ(static_cast<std::size_t>(counts[expert]), brought[expert].size()) << rank << ", " << expert;
      }
      rows.push_back(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}));
    }
    EXPECT_EQ(rows[static_cast<std::size_t>(fullest_rank(routing))], *std::max_element(rows.begin(), rows.end()));
    EXPECT_LE(std::accumulate(rows.begin(), rows.end(), std::int64_t{0}), 3000);
  }
}

/// All of these occur in the requests of one test, and so do ranks without any work.
TEST(MoeScheduleRequests, AreOfEveryKind) {
  MoeRandom random(2);
  std::map<moe::Skew, int> skews;
  std::set<int> worlds;
  std::map<std::int64_t, int> remote_eighths;
  int masked = 0;
  int struck = 0;
  int rank_without_tokens = 0;
  int idle_rank = 0;
  int idle_expert_of_a_busy_rank = 0;
  for (int round = 0; round < 150; ++round) {
    const moe::RoutingRequest request = random_request(random, 1500);
    const moe::Routing routing = make_routing(request);
    ++skews[request.skew];
    worlds.insert(request.world);
    remote_eighths[request.remote_share ? request.remote_share->part : -1] += 1;
    masked += request.masked_tokens.part > 0 ? 1 : 0;
    struck += request.masked_choices.part > 0 ? 1 : 0;
    for (int rank = 0; rank < request.world; ++rank) {
      const std::vector<std::int32_t> counts = counts_of(routing, rank);
      const auto idle = std::count(counts.begin(), counts.end(), 0);
      const bool all = idle == static_cast<std::ptrdiff_t>(counts.size());
      rank_without_tokens += request.tokens[static_cast<std::size_t>(rank)] == 0 ? 1 : 0;
      idle_rank += all ? 1 : 0;
      idle_expert_of_a_busy_rank += !all && idle > 0 ? 1 : 0;
    }
  }
  for (const moe::Skew skew : {moe::Skew::balanced, moe::Skew::zipf, moe::Skew::one_expert}) {
    EXPECT_GT(skews[skew], 30) << name_of(skew);
  }
  EXPECT_EQ(worlds, (std::set<int>{1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(remote_eighths.size(), 10U) << "no share, and each from none to all";
  for (const int seen : {masked, struck, rank_without_tokens, idle_rank, idle_expert_of_a_busy_rank}) {
    EXPECT_GT(seen, 20);
  }
}

}  // namespace
}  // namespace xstage::schedule_requests_test
