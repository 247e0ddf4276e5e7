// Dispatch and combine on real GPUs: virtual ranks of one GPU, and two GPUs where they are present. All to the bit.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "gpu/graph_support.hpp"
#include "gpu/moe_exchange_support.hpp"
#include "kernels/moe/dispatch_report.hpp"

namespace xstage {
namespace {

using gemm_test::two_gpus;
using gpu_test::capture;
using gpu_test::Graph;
using gpu_test::replay;
using moe_test::Call;
using moe_test::Case;
using moe_test::ExchangeRanks;
using moe_test::Random;
using moe_test::random_case;
using moe_test::random_routing;
using moe_test::virtual_ranks;

/// Several calls with different routings, enqueued back to back; then all of them are looked at.
void expect_right(const Case& which, const std::vector<int>& devices, const std::vector<moe::Routing>& routings) {
  SCOPED_TRACE(which.text());
  ExchangeRanks ranks(which, devices);
  std::vector<Call> calls;
  calls.reserve(routings.size());
  for (const moe::Routing& routing : routings) {
    calls.emplace_back(which, devices, routing, calls.size() + 1);
  }
  for (Call& call : calls) {
    call.enqueue(ranks);
  }
  ranks.finish();
  for (const Call& call : calls) {
    call.expect_right();
  }
  for (int rank = 0; rank < which.ranks; ++rank) {
    EXPECT_EQ(ranks[rank].report().raised, 0U);
  }
}

void expect_right(const Case& which, const std::vector<int>& devices, int calls, Random& random) {
  std::vector<moe::Routing> routings;
  for (int call = 0; call < calls; ++call) {
    routings.push_back(random_routing(which, random));
  }
  expect_right(which, devices, routings);
}

/// With rows and with partial sums.
void expect_right_either_way(Case which, const std::vector<int>& devices, const std::vector<moe::Routing>& routings) {
  for (const bool partial_sums : {false, true}) {
    which.partial_sums = partial_sums;
    expect_right(which, devices, routings);
  }
}

moe::Routing routing_of(const Case& which, const std::vector<std::int64_t>& tokens, moe::Skew skew) {
  moe::RoutingRequest request;
  request.world = which.ranks;
  request.experts_per_rank = which.experts_per_rank;
  request.top_k = which.top_k;
  request.tokens = tokens;
  request.skew = skew;
  return moe::make_routing(request);
}

Case usual_case(int ranks, std::int64_t hidden, int top_k, std::int64_t most_tokens) {
  Case which;
  which.ranks = ranks;
  which.hidden = hidden;
  which.experts_per_rank = 32;
  which.top_k = top_k;
  which.most_tokens = most_tokens;
  return which;
}

// ---- shapes, plans, routings

TEST(MoeExchange, RandomOnVirtualRanks) {
  SKIP_WITHOUT_HOPPER(1);
  Random random(500);
  for (const int ranks : {1, 2, 3, 4, 5, 6, 7, 8}) {
    for (int repetition = 0; repetition < 5; ++repetition) {
      expect_right(random_case(ranks, random), virtual_ranks(ranks), 3, random);
    }
  }
}

TEST(MoeExchange, RandomOnTwoGpus) {
  SKIP_WITHOUT_HOPPER(2);
  Random random(600);
  for (int repetition = 0; repetition < 20; ++repetition) {
    expect_right(random_case(2, random), {0, 1}, 4, random);
  }
}

/// Tokens beyond what each warp's ring holds, with the plan of the rule; either way of counting.
TEST(MoeExchange, ManyTokens) {
  SKIP_WITHOUT_HOPPER(1);
  for (const int counted_by_all : {-1, 1 << 20}) {
    for (const moe::Skew skew : {moe::Skew::balanced, moe::Skew::zipf, moe::Skew::one_expert}) {
      Case which = usual_case(2, 1024, 8, 3000);
      which.dispatch.counted_by_all = counted_by_all;
      expect_right_either_way(which, virtual_ranks(2), {routing_of(which, {3000, 1777}, skew)});
      if (two_gpus()) {
        expect_right_either_way(which, {0, 1},
                                {routing_of(which, {3000, 1777}, skew), routing_of(which, {3, 3000}, skew)});
      }
    }
  }
  if (two_gpus()) {
    const Case which = usual_case(2, 7168, 8, 600);
    expect_right_either_way(which, {0, 1}, {routing_of(which, {600, 511}, moe::Skew::zipf)});
  }
}

TEST(MoeExchange, RanksWithoutTokens) {
  SKIP_WITHOUT_HOPPER(1);
  const Case which = usual_case(4, 256, 6, 64);
  expect_right_either_way(
      which, virtual_ranks(4),
      {routing_of(which, {0, 64, 0, 1}, moe::Skew::balanced), routing_of(which, {0, 0, 0, 0}, moe::Skew::zipf),
       routing_of(which, {64, 64, 64, 64}, moe::Skew::one_expert)});
}

/// As many experts as there can be: counts of 2048 in every CTA's shared memory.
TEST(MoeExchange, MostExperts) {
  SKIP_WITHOUT_HOPPER(1);
  for (const int counted_by_all : {-1, 1 << 20}) {
    Case which = usual_case(8, 256, 16, 40);
    which.experts_per_rank = 256;
    which.dispatch.counted_by_all = counted_by_all;
    expect_right_either_way(which, virtual_ranks(8),
                            {routing_of(which, {40, 0, 7, 40, 40, 1, 40, 33}, moe::Skew::balanced),
                             routing_of(which, {40, 40, 40, 40, 40, 40, 40, 40}, moe::Skew::zipf)});
  }
}

// ---- choices that break a rule

TEST(MoeExchange, BadChoicesAreReportedAndLeftOut) {
  SKIP_WITHOUT_HOPPER(1);
  const Case which = usual_case(2, 256, 6, 64);
  constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();
  constexpr float infinite = std::numeric_limits<float>::infinity();
  const std::pair<std::int32_t, float> bad[] = {
      {64, 0.5F}, {-2, 0.5F}, {1 << 30, 0.5F}, {3, not_a_number}, {40, -infinite}};
  for (const auto& [expert, weight] : bad) {
    SCOPED_TRACE(testing::Message() << "expert " << expert << ", weight " << weight);
    ExchangeRanks ranks(which, virtual_ranks(2));
    const moe::Routing routing = routing_of(which, {64, 50}, moe::Skew::balanced);
    moe::Routing without = routing;
    constexpr std::size_t place = 23 * 6 + 4;
    without.ranks[1].experts[place] = moe::no_expert;
    Call call(which, virtual_ranks(2), routing, 1);
    call.overwrite(1, place, expert, weight, without);
    call.enqueue(ranks);
    ranks.finish();
    call.expect_right();
    EXPECT_EQ(ranks[0].report().raised, 0U);
    const kernels::RoutingReport& report = ranks[1].report();
    EXPECT_EQ(report.raised, 2U);
    EXPECT_EQ(report.rank, 1);
    EXPECT_EQ(report.token, 23);
    EXPECT_EQ(report.choice, 4);
    EXPECT_EQ(report.expert, expert);
    EXPECT_TRUE(report.weight == weight || (std::isnan(report.weight) && std::isnan(weight)));
    EXPECT_NE(kernels::describe(report, 64).find("rank 1, token 23, choice 4"), std::string::npos);
  }
}

/// The weight of no expert is not read.
TEST(MoeExchange, WeightOfNoExpertIsAnything) {
  SKIP_WITHOUT_HOPPER(1);
  const Case which = usual_case(1, 64, 4, 32);
  ExchangeRanks ranks(which, {0});
  moe::Routing routing = routing_of(which, {32}, moe::Skew::balanced);
  Call call(which, {0}, routing, 1);
  routing.ranks[0].experts[17] = moe::no_expert;
  call.overwrite(0, 17, moe::no_expert, std::numeric_limits<float>::quiet_NaN(), routing);
  call.enqueue(ranks);
  ranks.finish();
  call.expect_right();
  EXPECT_EQ(ranks[0].report().raised, 0U);
}

// ---- launches with nothing between them

void expect_right_replays(const Case& which, const std::vector<int>& devices, const std::vector<std::int64_t>& tokens) {
  SCOPED_TRACE(which.text());
  ExchangeRanks ranks(which, devices);
  Call call(which, devices, routing_of(which, tokens, moe::Skew::zipf), 1);
  call.enqueue(ranks);  // leaves poison behind the rows, which replays do not touch
  ranks.finish();
  const std::vector<Graph> graphs = capture(ranks, [&](int rank) {
    for (int launch = 0; launch < 3; ++launch) {
      ranks[rank].enqueue_dispatch(ranks.stream(rank));
      ranks[rank].enqueue_combine(ranks.stream(rank));
    }
  });
  replay(graphs, 4);
  for (int rank = 0; rank < which.ranks; ++rank) {
    call.collect(ranks, rank);
  }
  ranks.finish();
  call.expect_right();
  call.enqueue(ranks);  // eager launches may follow
  ranks.finish();
  call.expect_right();
}

TEST(MoeExchange, ReplaysOfAGraph) {
  SKIP_WITHOUT_HOPPER(1);
  expect_right_replays(usual_case(1, 1024, 6, 500), {0}, {500});
}

TEST(MoeExchange, ReplaysOfAGraphOnTwoGpus) {
  SKIP_WITHOUT_HOPPER(2);
  for (const bool partial_sums : {false, true}) {
    Case many = usual_case(2, 1024, 8, 2000);
    Case few = usual_case(2, 7168, 8, 64);
    many.partial_sums = partial_sums;
    few.partial_sums = partial_sums;
    expect_right_replays(many, {0, 1}, {2000, 900});
    expect_right_replays(few, {0, 1}, {64, 64});
  }
}

}  // namespace
}  // namespace xstage
