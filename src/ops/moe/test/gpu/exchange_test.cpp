// Dispatch and combine on real GPUs: virtual ranks of one GPU, and two GPUs where they are present. All results are
// compared to the bit.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "gpu/graph_support.hpp"
#include "ops/moe/device/layer_exchange.hpp"
#include "ops/moe/test/gpu/exchange_support.hpp"

namespace xstage::exchange_test {
namespace {

using gpu_test::capture;
using gpu_test::Graph;
using gpu_test::replay;
using gpu_test::two_gpus;
using moe_test::Call;
using moe_test::Case;
using moe_test::ExchangeRanks;
using moe_test::Random;
using moe_test::random_case;
using moe_test::random_routing;
using moe_test::virtual_ranks;

/// Enqueues several calls with different routings back to back, then verifies all of them.
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

struct BadChoice {
  int rank;
  std::size_t place;
  std::int32_t expert;
  float weight;
};

/// In a call with these choices, which count as none.
void overwrite(Call& call, const std::vector<BadChoice>& choices, const moe::Routing& routing) {
  moe::Routing without = routing;
  for (const BadChoice& bad : choices) {
    without.ranks[static_cast<std::size_t>(bad.rank)].experts[bad.place] = moe::no_expert;
  }
  for (const BadChoice& bad : choices) {
    call.overwrite(bad.rank, bad.place, bad.expert, bad.weight, without);
  }
}

/// Expects the same report on every rank.
void expect_report(ExchangeRanks& ranks, const BadChoice& bad, int top_k) {
  for (int rank = 0; rank < ranks.count(); ++rank) {
    SCOPED_TRACE(testing::Message() << "rank " << rank);
    const kernels::RoutingReport& report = ranks[rank].report();
    ASSERT_NE(report.raised, 0U);
    EXPECT_EQ(report.rank, bad.rank);
    EXPECT_EQ(report.token, static_cast<std::int32_t>(bad.place) / top_k);
    EXPECT_EQ(report.choice, static_cast<std::int32_t>(bad.place) % top_k);
    EXPECT_EQ(report.expert, bad.expert);
    EXPECT_TRUE(report.weight == bad.weight || (std::isnan(report.weight) && std::isnan(bad.weight)));
  }
}

std::vector<std::vector<int>> places_of_two_ranks() {
  std::vector<std::vector<int>> places{virtual_ranks(2)};
  if (two_gpus()) {
    places.push_back({0, 1});
  }
  return places;
}

TEST(MoeExchange, BadChoicesAreReportedOnAllRanksAndLeftOut) {
  SKIP_WITHOUT_HOPPER(1);
  constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();
  constexpr float infinite = std::numeric_limits<float>::infinity();
  constexpr std::size_t place = 23 * 6 + 4;
  const BadChoice bad_choices[] = {{1, place, 64, 0.5F},
                                   {1, place, -2, 0.5F},
                                   {0, place, 1 << 30, 0.5F},
                                   {1, place, 3, not_a_number},
                                   {0, 0, 40, -infinite}};
  for (const std::vector<int>& devices : places_of_two_ranks()) {
    for (const int counted_by_all : {-1, 1 << 20}) {
      for (const BadChoice& bad : bad_choices) {
        SCOPED_TRACE(testing::Message() << "expert " << bad.expert << ", weight " << bad.weight << " of rank "
                                        << bad.rank << ", counted by all up to " << counted_by_all);
        Case which = usual_case(2, 256, 6, 64);
        which.dispatch.counted_by_all = counted_by_all;
        ExchangeRanks ranks(which, devices);
        const moe::Routing routing = routing_of(which, {64, 50}, moe::Skew::balanced);
        Call call(which, devices, routing, 1);
        overwrite(call, {bad}, routing);
        call.enqueue(ranks);
        ranks.finish();
        call.expect_right();
        expect_report(ranks, bad, which.top_k);
        EXPECT_NE(kernels::describe(ranks[0].report(), 64).find("rank " + std::to_string(bad.rank) + ", token "),
                  std::string::npos);
      }
    }
  }
}

/// Of several invalid choices the first one of the lowest rank is reported, on every rank.
TEST(MoeExchange, TheFirstBadChoiceIsReported) {
  SKIP_WITHOUT_HOPPER(1);
  for (const int counted_by_all : {-1, 1 << 20}) {
    SCOPED_TRACE(counted_by_all);
    Case which = usual_case(4, 256, 6, 64);
    which.dispatch.counted_by_all = counted_by_all;
    ExchangeRanks ranks(which, virtual_ranks(4));
    const moe::Routing routing = routing_of(which, {64, 50, 64, 64}, moe::Skew::balanced);
    Call call(which, virtual_ranks(4), routing, 1);
    const BadChoice first{1, 7 * 6 + 5, -9, 0.25F};
    overwrite(call, {{3, 0, 500, 1.0F}, {1, 49 * 6, 400, 1.0F}, first, {2, 1, 300, 1.0F}}, routing);
    call.enqueue(ranks);
    ranks.finish();
    call.expect_right();
    expect_report(ranks, first, which.top_k);
  }
}

/// Launches that hosts enqueued before they learned of an invalid choice end at once on all ranks: none of them waits
/// for a rank whose host has learned of it and launches nothing more.
TEST(MoeExchange, CallsBehindABadChoiceWaitForNobody) {
  SKIP_WITHOUT_HOPPER(1);
  for (const bool partial_sums : {false, true}) {
    for (const int counted_by_all : {-1, 1 << 20}) {
      SCOPED_TRACE(testing::Message() << "partial sums " << partial_sums << ", counted by all up to "
                                      << counted_by_all);
      Case which = usual_case(2, 256, 6, 64);
      which.partial_sums = partial_sums;
      which.dispatch.counted_by_all = counted_by_all;
      ExchangeRanks ranks(which, virtual_ranks(2));
      const moe::Routing routing = routing_of(which, {64, 50}, moe::Skew::balanced);
      Call call(which, virtual_ranks(2), routing, 1);
      const BadChoice bad{1, 17, 99, 0.5F};
      overwrite(call, {bad}, routing);
      call.enqueue(ranks);
      ranks.finish();
      for (int repetition = 0; repetition < 3; ++repetition) {
        ranks[0].enqueue_dispatch(ranks.stream(0));
        ranks[0].enqueue_combine(ranks.stream(0));
      }
      ranks.finish();  // throws if one of them has waited for rank 1
      expect_report(ranks, bad, which.top_k);
      for (int rank = 0; rank < ranks.count(); ++rank) {
        ranks[rank].restore();
      }
      Call good(which, virtual_ranks(2), routing, 2);
      good.enqueue(ranks);
      ranks.finish();
      good.expect_right();
      EXPECT_EQ(ranks[0].report().raised, 0U);
    }
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
  call.enqueue(ranks);  // writes poison behind the rows, which replays do not touch
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
}  // namespace xstage::exchange_test
