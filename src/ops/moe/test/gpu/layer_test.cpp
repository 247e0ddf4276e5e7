// MoeLayer on real GPUs against the reference in double: virtual ranks of one GPU, and two GPUs where they are present.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "gpu/graph_support.hpp"
#include "ops/moe/test/gpu/layer_support.hpp"
#include "xstage/error.hpp"

namespace xstage::layer_test {
namespace {

using gpu_test::capture;
using gpu_test::Graph;
using gpu_test::replay;
using gpu_test::two_gpus;
using moe_layer_test::Call;
using moe_layer_test::Case;
using moe_layer_test::Elements;
using moe_layer_test::LayerWeights;
using moe_layer_test::make_case;
using moe_layer_test::Random;
using moe_layer_test::random_case;
using moe_layer_test::random_routing;
using moe_layer_test::Ranks;
using moe_layer_test::routing_of;
using moe_layer_test::virtual_ranks;

/// Enqueues several calls with different routings back to back, then verifies all of them.
void expect_right(const Case& which, const std::vector<int>& devices, const std::vector<moe::Routing>& routings) {
  SCOPED_TRACE(testing::Message() << which.text() << (devices.back() == 0 ? "; one GPU" : "; two GPUs"));
  const LayerWeights weights(which, devices, 1);
  Ranks ranks(which, devices);
  std::vector<Call> calls;
  calls.reserve(routings.size());
  for (const moe::Routing& routing : routings) {
    calls.emplace_back(which, devices, weights, routing, calls.size() + 1);
  }
  for (const Call& call : calls) {
    ranks.enqueue(call);
  }
  ranks.finish();
  for (std::size_t call = 0; call < calls.size(); ++call) {
    EXPECT_EQ(calls[call].complaint(), "") << "call " << call;
  }
}

void expect_right(const Case& which, const std::vector<int>& devices, int calls, Random& random) {
  std::vector<moe::Routing> routings;
  for (int call = 0; call < calls; ++call) {
    routings.push_back(random_routing(which, random));
  }
  expect_right(which, devices, routings);
}

/// Virtual ranks, and as many GPUs if there are.
void expect_right_everywhere(const Case& which, const std::vector<moe::Routing>& routings) {
  expect_right(which, virtual_ranks(which.ranks), routings);
  if (which.ranks == 2 && two_gpus()) {
    expect_right(which, {0, 1}, routings);
  }
}

// ---- shapes and routings

TEST(MoeLayer, RandomOnOneRank) {
  SKIP_WITHOUT_HOPPER(1);
  Random random(700);
  for (int repetition = 0; repetition < 8; ++repetition) {
    expect_right(random_case(1, random), {0}, 3, random);
  }
}

TEST(MoeLayer, RandomOnVirtualRanks) {
  SKIP_WITHOUT_HOPPER(1);
  Random random(710);
  for (const int ranks : {2, 4, 8}) {
    for (int repetition = 0; repetition < 6; ++repetition) {
      expect_right(random_case(ranks, random), virtual_ranks(ranks), 3, random);
    }
  }
}

TEST(MoeLayer, RandomOnTwoGpus) {
  SKIP_WITHOUT_HOPPER(2);
  Random random(720);
  for (int repetition = 0; repetition < 12; ++repetition) {
    expect_right(random_case(2, random), {0, 1}, 4, random);
  }
}

TEST(MoeLayer, AllNumbersOfChoices) {
  SKIP_WITHOUT_HOPPER(1);
  for (int top_k = 1; top_k <= 16; ++top_k) {
    const Case which = make_case(2, 192, 64, 9, top_k, 150);
    expect_right_everywhere(which, {routing_of(which, {150, 77}, moe::Skew::zipf)});
  }
}

TEST(MoeLayer, RanksWithoutTokens) {
  SKIP_WITHOUT_HOPPER(1);
  const Case four = make_case(4, 192, 320, 5, 6, 64);
  expect_right(four, virtual_ranks(4),
               {routing_of(four, {0, 64, 0, 1}, moe::Skew::balanced), routing_of(four, {0, 0, 0, 0}, moe::Skew::zipf),
                routing_of(four, {64, 64, 64, 64}, moe::Skew::one_expert)});
  const Case two = make_case(2, 192, 320, 5, 6, 64);
  expect_right_everywhere(two, {routing_of(two, {0, 64}, moe::Skew::zipf), routing_of(two, {64, 0}, moe::Skew::zipf),
                                routing_of(two, {0, 0}, moe::Skew::zipf), routing_of(two, {3, 64}, moe::Skew::zipf)});
}

/// Operands of a rank without tokens may be null.
TEST(MoeLayer, NoTokensNeedNoAddresses) {
  SKIP_WITHOUT_HOPPER(1);
  const Case which = make_case(2, 128, 64, 4, 2, 32);
  const std::vector<int> devices = two_gpus() ? std::vector<int>{0, 1} : virtual_ranks(2);
  const LayerWeights weights(which, devices, 1);
  Ranks ranks(which, devices);
  const Call call(which, devices, weights, routing_of(which, {32, 0}, moe::Skew::balanced), 1);
  std::vector<moe::Operands> operands{call.operands(0), {}};
  operands[1].linear1 = weights.linear1(1);
  operands[1].linear2 = weights.linear2(1);
  if (devices[1] == 0) {
    MoeLayer::launch_together(ranks.handles(), operands, ranks.stream(0));
  } else {
    ranks[0].launch(operands[0], ranks.stream(0));
    ranks[1].launch(operands[1], ranks.stream(1));
  }
  ranks.finish();
  EXPECT_EQ(call.complaint(), "");
}

/// Each expert in turn has all rows of all ranks.
TEST(MoeLayer, OneExpertTakesAll) {
  SKIP_WITHOUT_HOPPER(1);
  for (const int top_k : {1, 3}) {
    const Case which = make_case(2, 320, 192, 3, top_k, 300);
    std::vector<moe::Routing> routings;
    for (std::int32_t expert = 0; expert < 6; ++expert) {
      moe::Routing routing = routing_of(which, {300, 211}, moe::Skew::balanced);
      for (moe::RankRouting& rank : routing.ranks) {
        std::fill(rank.experts.begin(), rank.experts.end(), expert);
      }
      routings.push_back(routing);
    }
    expect_right_everywhere(which, routings);
  }
}

/// Tokens beyond what rings and counting by all CTAs hold, experts of many blocks.
TEST(MoeLayer, ManyTokens) {
  SKIP_WITHOUT_HOPPER(1);
  const Case which = make_case(2, 1088, 448, 6, 8, 3000);
  expect_right_everywhere(
      which, {routing_of(which, {3000, 1777}, moe::Skew::balanced), routing_of(which, {3000, 3000}, moe::Skew::zipf),
              routing_of(which, {5, 3000}, moe::Skew::one_expert)});
}

TEST(MoeLayer, ShapeOfAModel) {
  SKIP_WITHOUT_HOPPER(2);
  const Case which = make_case(2, 2048, 768, 8, 8, 1024);
  expect_right(which, {0, 1},
               {routing_of(which, {1024, 1024}, moe::Skew::balanced), routing_of(which, {64, 64}, moe::Skew::zipf),
                routing_of(which, {1, 1}, moe::Skew::zipf)});
}

TEST(MoeLayer, Clamp) {
  SKIP_WITHOUT_HOPPER(1);
  Case which = make_case(2, 192, 192, 4, 4, 100);
  which.problem.clamp = 0.5F;
  expect_right_everywhere(which, {routing_of(which, {100, 100}, moe::Skew::balanced)});
}

/// All tokens are masked, so that no rank has rows.
TEST(MoeLayer, NoChoicesAtAll) {
  SKIP_WITHOUT_HOPPER(1);
  const Case which = make_case(2, 128, 64, 4, 4, 100);
  moe::Routing routing = routing_of(which, {100, 50}, moe::Skew::balanced);
  for (moe::RankRouting& rank : routing.ranks) {
    std::fill(rank.experts.begin(), rank.experts.end(), moe::no_expert);
  }
  expect_right_everywhere(which, {routing, routing_of(which, {100, 50}, moe::Skew::balanced), routing});
}

// ---- the same result in every run

/// The results of rank 0 in three runs.
std::vector<Elements> results_of(const Case& which, const std::vector<int>& devices, const moe::Routing& routing) {
  const LayerWeights weights(which, devices, 1);
  Ranks ranks(which, devices);
  Call call(which, devices, weights, routing, 1);
  std::vector<Elements> results;
  for (int run = 0; run < 3; ++run) {
    ranks.enqueue(call);
    ranks.finish();
    results.push_back(call.read_result(0));
    call.refill(routing, 1);
  }
  return results;
}

void expect_everywhere(const Elements& expected, Case which, const moe::Routing& routing) {
  for (const int issuers : {0, 1, 17}) {
    SCOPED_TRACE(testing::Message() << issuers << " issuers");
    which.plan.issuers = issuers;
    for (const Elements& result : results_of(which, virtual_ranks(which.ranks), routing)) {
      EXPECT_TRUE(result == expected) << which.ranks << " virtual ranks";
    }
    if (which.ranks == 2 && two_gpus()) {
      for (const Elements& result : results_of(which, {0, 1}, routing)) {
        EXPECT_TRUE(result == expected) << "two GPUs";
      }
    }
  }
}

/// Results do not depend on which rank has an expert, nor on the number of CTAs.
TEST(MoeLayer, TheSameResultInEveryRun) {
  SKIP_WITHOUT_HOPPER(1);
  Case two = make_case(2, 576, 320, 8, 6, 400);
  Case one = make_case(1, 576, 320, 16, 6, 400);
  const moe::Routing routing = routing_of(two, {400, 333}, moe::Skew::zipf);
  const moe::Routing alone{1, 16, 6, {routing.ranks[0]}};
  const Elements expected = results_of(one, {0}, alone)[0];
  expect_everywhere(expected, one, alone);
  two.plan.combine = moe::Combine::rows;
  expect_everywhere(expected, two, routing);
  two.plan.combine = moe::Combine::partial_sums;
  expect_everywhere(results_of(two, virtual_ranks(2), routing)[0], two, routing);
}

// ---- graphs

/// Replays use new tokens and routings, and nothing else changes between them.
void expect_right_replays(const Case& which, const std::vector<int>& devices, const std::vector<std::int64_t>& tokens) {
  SCOPED_TRACE(which.text());
  const LayerWeights weights(which, devices, 1);
  Ranks ranks(which, devices);
  Call call(which, devices, weights, routing_of(which, tokens, moe::Skew::balanced), 1);
  const std::vector<Graph> graphs = capture(ranks, [&](int rank) {
    for (int launch = 0; launch < 2; ++launch) {
      ranks.enqueue_rank(call, rank);
    }
  });
  std::uint64_t seed = 1;
  for (const moe::Skew skew : {moe::Skew::balanced, moe::Skew::one_expert, moe::Skew::zipf}) {
    ++seed;
    call.refill(routing_of(which, tokens, skew, seed), seed);
    replay(graphs, 3);
    ranks.finish();
    EXPECT_EQ(call.complaint(), "") << "replays of routing " << seed;
  }
  call.refill(routing_of(which, tokens, moe::Skew::zipf, 50), 50);
  ranks.enqueue(call);  // eager launches may follow
  ranks.finish();
  EXPECT_EQ(call.complaint(), "") << "after the replays";
}

TEST(MoeLayer, ReplaysOfAGraph) {
  SKIP_WITHOUT_HOPPER(1);
  expect_right_replays(make_case(1, 576, 192, 7, 5, 300), {0}, {300});
}

TEST(MoeLayer, ReplaysOfGraphsOnTwoGpus) {
  SKIP_WITHOUT_HOPPER(2);
  expect_right_replays(make_case(2, 576, 192, 7, 5, 700), {0, 1}, {700, 450});
  expect_right_replays(make_case(2, 1088, 320, 4, 8, 40), {0, 1}, {40, 40});
}

}  // namespace
}  // namespace xstage::layer_test
