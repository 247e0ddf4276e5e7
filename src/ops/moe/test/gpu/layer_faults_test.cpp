// Faults of a MoeLayer: choices, operands, problems and heaps that break a rule, peers that arrive late or never.
// Nothing hangs, errors say what happened, and after reset() the next call is right.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "gpu/fault_support.hpp"
#include "ops/moe/test/gpu/layer_support.hpp"
#include "xstage/error.hpp"

namespace xstage::layer_faults_test {
namespace {

using namespace std::chrono_literals;

using gpu_test::complaint;
using gpu_test::complaint_of_lonely_rank;
using gpu_test::enqueue_late;
using gpu_test::refusal_after;
using gpu_test::two_gpus;
using moe_layer_test::Call;
using moe_layer_test::Case;
using moe_layer_test::LayerWeights;
using moe_layer_test::make_case;
using moe_layer_test::Ranks;
using moe_layer_test::routing_of;
using moe_layer_test::virtual_ranks;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;

constexpr auto time_out = 200ms;

std::vector<std::vector<int>> places() {
  std::vector<std::vector<int>> places{virtual_ranks(2)};
  if (two_gpus()) {
    places.push_back({0, 1});
  }
  return places;
}

/// Few enough CTAs that a rank has as many in a launch of its own as in a common one.
Case small_case() {
  Case which = make_case(2, 192, 64, 4, 4, 60);
  which.plan.issuers = 4;
  return which;
}

moe::Routing small_routing(const Case& which, std::uint64_t seed = 1) {
  return routing_of(which, {60, 41}, moe::Skew::zipf, seed);
}

/// A layer and what its calls need.
struct Layer {
  explicit Layer(const std::vector<int>& devices, std::chrono::microseconds limit = time_out)
      : which(small_case()),
        weights(which, devices, 1),
        ranks(which, devices, limit),
        call(which, devices, weights, small_routing(which), 1) {}

  void expect_right_call(std::uint64_t seed) {
    call.refill(small_routing(which, seed), seed);
    ranks.enqueue(call);
    ranks.finish();
    EXPECT_EQ(call.complaint(), "") << "seed " << seed;
  }

  Case which;
  LayerWeights weights;
  Ranks ranks;
  Call call;
};

// ---- choices that break a rule

struct BadChoice {
  std::int32_t expert;
  float weight;
  std::string said;
};

TEST(MoeLayerFaults, BadChoicesAreReportedOnAllRanks) {
  SKIP_WITHOUT_HOPPER(1);
  const std::vector<BadChoice> bad{{8, 0.5F, "expert 8: it must be between 0 and 7, or -1 for none"},
                                   {-2, 0.5F, "expert -2"},
                                   {1 << 30, 0.5F, "expert 1073741824"},
                                   {3, std::numeric_limits<float>::quiet_NaN(), "router weight nan: it must be finite"},
                                   {7, -std::numeric_limits<float>::infinity(), "router weight -inf"}};
  for (const std::vector<int>& devices : places()) {
    Layer layer(devices);
    layer.expect_right_call(1);
    for (std::size_t number = 0; number < bad.size(); ++number) {
      SCOPED_TRACE(bad[number].said);
      const int rank = static_cast<int>(number % 2);
      layer.call.overwrite(rank, 23 * 4 + 2, bad[number].expert, bad[number].weight);
      layer.ranks.enqueue(layer.call);
      layer.ranks.wait();
      const std::string said = complaint<InputError>([&] { layer.ranks[rank].check(); });
      EXPECT_THAT(said, AllOf(HasSubstr("rank " + std::to_string(rank) + ", token 23, choice 2"),
                              HasSubstr(bad[number].said), HasSubstr("reset()")));
      // The other rank reports the same for the same call, and launches no more calls than this one, so no rank waits.
      EXPECT_EQ(complaint<InputError>([&] { layer.ranks[1 - rank].check(); }), said);
      for (const int either : {0, 1}) {
        EXPECT_EQ(complaint<InputError>([&] { layer.ranks.enqueue_rank(layer.call, either); }), said);
      }
      MoeLayer::reset(layer.ranks.handles());
      EXPECT_NO_THROW(layer.ranks[0].check());
      EXPECT_NO_THROW(layer.ranks[1].check());
      layer.expect_right_call(10 + number);
    }
  }
}

TEST(MoeLayerFaults, WeightOfNoExpertIsAnything) {
  SKIP_WITHOUT_HOPPER(1);
  for (const std::vector<int>& devices : places()) {
    Layer layer(devices);
    moe::Routing routing = small_routing(layer.which);
    routing.ranks[1].experts[17] = moe::no_expert;
    layer.call.refill(routing, 3);
    layer.call.overwrite(1, 17, moe::no_expert, std::numeric_limits<float>::quiet_NaN());
    layer.ranks.enqueue(layer.call);
    layer.ranks.finish();
    EXPECT_EQ(layer.call.complaint(), "");
  }
}

// ---- peers that come late or never

TEST(MoeLayerFaults, APeerThatNeverComes) {
  SKIP_WITHOUT_HOPPER(1);
  for (const std::vector<int>& devices : places()) {
    for (const int calls_before : {0, 3}) {
      Layer layer(devices);
      for (int call = 0; call < calls_before; ++call) {
        layer.expect_right_call(static_cast<std::uint64_t>(call) + 1);
      }
      EXPECT_THAT(
          complaint_of_lonely_rank(layer.ranks, layer.call, time_out),
          AllOf(HasSubstr("moe: rank 0 waited"), HasSubstr("reset()"),
                ContainsRegex("for rank 1 in call " + std::to_string(calls_before + 1) + " and gave up: peer entry")));
      MoeLayer::reset(layer.ranks.handles());
      layer.expect_right_call(50);
      layer.expect_right_call(51);
    }
  }
}

/// The late rank learns that the other has given up, and does not treat its results as valid.
TEST(MoeLayerFaults, APeerThatComesTooLate) {
  SKIP_WITHOUT_HOPPER(1);
  for (const std::vector<int>& devices : places()) {
    for (const int late : {0, 1}) {
      Layer layer(devices);
      layer.expect_right_call(1);
      layer.ranks.enqueue_rank(layer.call, 1 - late);
      layer.ranks.wait();
      EXPECT_NE(complaint<DeviceError>([&] { layer.ranks[1 - late].check(); }), "");
      layer.ranks.enqueue_rank(layer.call, late);
      layer.ranks.wait();
      EXPECT_THAT(complaint<DeviceError>([&] { layer.ranks[late].check(); }),
                  AllOf(HasSubstr("rank " + std::to_string(late) + " waited"),
                        HasSubstr("stopped because another wait had given up")));
      MoeLayer::reset(layer.ranks.handles());
      layer.expect_right_call(2);
      layer.expect_right_call(3);
    }
  }
}

TEST(MoeLayerFaults, APeerThatIsLate) {
  SKIP_WITHOUT_HOPPER(2);
  for (const int late : {0, 1}) {
    Layer layer({0, 1}, 10s);
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      layer.call.refill(small_routing(layer.which, seed), seed);
      enqueue_late(late, 100ms, [&](int rank) { layer.ranks.enqueue_rank(layer.call, rank); });
      layer.ranks.finish();
      EXPECT_EQ(layer.call.complaint(), "") << "seed " << seed;
    }
  }
}

// ---- handles

TEST(MoeLayerRefusals, ALaunchBeforeAllRanksAreMade) {
  SKIP_WITHOUT_HOPPER(1);
  const Case which = small_case();
  auto heap = PeerAccessHeap::create(virtual_ranks(2), moe::heap_bytes(which.problem, 2));
  const LayerWeights weights(which, virtual_ranks(2), 1);
  const Call call(which, virtual_ranks(2), weights, small_routing(which), 1);
  MoeLayer first(heap.rank(0), which.problem, which.plan);
  EXPECT_THAT(complaint<InputError>([&] { first.launch(call.operands(0), nullptr); }), HasSubstr("rank 1 has made"));
}

TEST(MoeLayerRefusals, RanksThatDisagree) {
  SKIP_WITHOUT_HOPPER(1);
  const Case which = small_case();
  auto heap = PeerAccessHeap::create(virtual_ranks(2), moe::heap_bytes(which.problem, 2));
  const MoeLayer first(heap.rank(0), which.problem, which.plan);
  const auto refusal_of = [&](const auto& change) { return refusal_after<MoeLayer>(heap.rank(1), which, change); };
  EXPECT_THAT(refusal_of([](moe::Problem& problem, moe::Plan&) { problem.top_k = 3; }),
              AllOf(HasSubstr("top_k=3"), HasSubstr("top_k=4")));
  EXPECT_THAT(refusal_of([](moe::Problem& problem, moe::Plan&) { problem.most_tokens = 61; }),
              AllOf(HasSubstr("most_tokens=61"), HasSubstr("most_tokens=60")));
  EXPECT_THAT(refusal_of([](moe::Problem&, moe::Plan& plan) { plan.issuers = 5; }),
              AllOf(HasSubstr("issuers=5"), HasSubstr("issuers=4")));
  EXPECT_THAT(refusal_of([](moe::Problem&, moe::Plan& plan) { plan.dispatch_senders = 3; }),
              AllOf(HasSubstr("dispatch_senders=3"), HasSubstr("dispatch_senders=2")));
}

/// heap_bytes() is enough and no more than needed; what a handle has taken is free when it is gone.
TEST(MoeLayerRefusals, AHeapThatIsTooSmall) {
  SKIP_WITHOUT_HOPPER(1);
  const Case which = small_case();
  const std::size_t bytes = moe::heap_bytes(which.problem, 2);
  auto small = PeerAccessHeap::create(virtual_ranks(2), bytes - HeapRank::default_alignment);
  EXPECT_THAT(complaint<InputError>([&] { const MoeLayer refused(small.rank(0), which.problem, which.plan); }),
              HasSubstr("rank 0 allocates 'moe"));
  auto heap = PeerAccessHeap::create(virtual_ranks(2), bytes);
  for (int time = 0; time < 2; ++time) {
    const MoeLayer first(heap.rank(0), which.problem, which.plan);
    const MoeLayer second(heap.rank(1), which.problem, which.plan);
  }
}

TEST(MoeLayerRefusals, AProblemThatBreaksARule) {
  SKIP_WITHOUT_HOPPER(1);
  const Case which = small_case();
  auto heap = PeerAccessHeap::create(virtual_ranks(2), moe::heap_bytes(which.problem, 2));
  const auto refusal_of = [&](const auto& change) { return refusal_after<MoeLayer>(heap.rank(0), which, change); };
  EXPECT_THAT(refusal_of([](moe::Problem& problem, moe::Plan&) { problem.hidden = 96; }), HasSubstr("hidden is 96"));
  EXPECT_THAT(refusal_of([](moe::Problem& problem, moe::Plan&) { problem.intermediate = 0; }),
              HasSubstr("intermediate is 0"));
  EXPECT_THAT(refusal_of([](moe::Problem& problem, moe::Plan&) { problem.top_k = 17; }), HasSubstr("top_k is 17"));
  EXPECT_THAT(refusal_of([](moe::Problem&, moe::Plan& plan) { plan.issuers = -1; }), HasSubstr("issuers is -1"));
  EXPECT_THAT(refusal_of([](moe::Problem&, moe::Plan& plan) { plan.issuers = 10000; }), HasSubstr("issuers is 10000"));
  EXPECT_EQ(heap.rank(0).steps(), 0U) << "a refused rank has taken a step";
}

/// Each operand in turn null and off by 8 bytes; nothing is enqueued, and the next call is right.
TEST(MoeLayerRefusals, OperandsThatBreakARule) {
  SKIP_WITHOUT_HOPPER(1);
  Layer layer(virtual_ranks(2));
  using moe::Operands;
  const auto refusal_of = [&](const std::function<void(Operands&)>& change) {
    std::vector<Operands> operands{layer.call.operands(0), layer.call.operands(1)};
    change(operands[1]);
    return complaint<InputError>(
        [&] { MoeLayer::launch_together(layer.ranks.handles(), operands, layer.ranks.stream(0)); });
  };
  EXPECT_THAT(refusal_of([](Operands& operands) { operands.tokens = 61; }),
              HasSubstr("tokens is 61: it must be between 0 and 60"));
  EXPECT_THAT(refusal_of([](Operands& operands) { operands.tokens = -1; }), HasSubstr("tokens is -1"));
  EXPECT_THAT(refusal_of([](Operands& operands) { operands.tokens_in = nullptr; }),
              HasSubstr("operand tokens_in is null"));
  EXPECT_THAT(refusal_of([](Operands& operands) { operands.experts = nullptr; }), HasSubstr("operand experts is null"));
  EXPECT_THAT(refusal_of([](Operands& operands) { operands.router_weights += 2; }),
              AllOf(HasSubstr("operand router_weights is at 0x"), HasSubstr("aligned to 16 bytes")));
  EXPECT_THAT(refusal_of([](Operands& operands) { operands.linear1 = nullptr; }), HasSubstr("operand linear1 is null"));
  EXPECT_THAT(refusal_of([](Operands& operands) { operands.linear2 = static_cast<const char*>(operands.linear2) + 8; }),
              HasSubstr("operand linear2 is at 0x"));
  EXPECT_THAT(refusal_of([](Operands& operands) { operands.output = static_cast<char*>(operands.output) + 8; }),
              HasSubstr("operand output is at 0x"));
  layer.expect_right_call(2);
}

TEST(MoeLayerRefusals, CommonLaunchesThatLackARank) {
  SKIP_WITHOUT_HOPPER(1);
  Layer layer(virtual_ranks(2));
  const std::vector<MoeLayer*> handles = layer.ranks.handles();
  const std::vector<moe::Operands> operands{layer.call.operands(0)};
  EXPECT_THAT(complaint<InputError>([&] { MoeLayer::launch_together(handles, operands, layer.ranks.stream(0)); }),
              HasSubstr("2 handles and 1 operands"));
  EXPECT_THAT(complaint<InputError>([&] { MoeLayer::launch_together({}, {}, layer.ranks.stream(0)); }),
              HasSubstr("0 handles and 0 operands"));
  layer.expect_right_call(2);
}

}  // namespace
}  // namespace xstage::layer_faults_test
