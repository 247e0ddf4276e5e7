// Faults of an attention: peers that never arrive or arrive late, ranks that disagree, operands and heaps that break a
// rule. Nothing hangs, errors say what happened, and after reset() the next call is right.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "fabric/call_parameters.hpp"
#include "gpu/call_support.hpp"
#include "gpu/fault_support.hpp"
#include "ops/attention/test/gpu/reference.hpp"
#include "ops/attention/test/gpu/support.hpp"
#include "xstage/error.hpp"

namespace xstage::faults_test {
namespace {

using namespace std::chrono_literals;

using attention::Destination;
using attention_test::Call;
using attention_test::Case;
using attention_test::complaint_about;
using attention_test::make_case;
using attention_test::make_problem;
using attention_test::Ranks;
using gpu_test::complaint;
using gpu_test::enter_first_call;
using gpu_test::expect_every_rank_that_waits_is_told;
using gpu_test::expect_names_the_missing_peer;
using gpu_test::expect_refusal_without_all_ranks;
using gpu_test::expect_right_when_a_rank_runs_ahead;
using gpu_test::expect_right_whoever_is_late;
using gpu_test::expect_too_small;
using gpu_test::refusal_after;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;

constexpr auto time_out = 200ms;

/// Few enough CTAs that a rank has as many in a launch of its own as in a common one; a single CTA, so that it meets
/// its waits in a known order.
Case small_case(int world, bool causal = false, StorePath store_path = StorePath::bulk) {
  attention::Problem problem = make_problem(Destination::to_owners, world, 200, 200, 2, 1);
  problem.causal = causal;
  attention::Plan plan;
  plan.store_path = store_path;
  plan.issuers = 1;
  return make_case(problem, world, plan);
}

/// Three CTAs, each with a whole tile and a part of the fourth.
Case small_split_case(int world) {
  attention::Plan plan;
  plan.issuers = 3;
  plan.split = 1;
  return make_case(make_problem(Destination::to_owners, world, 200, 1000, 2, 1), world, plan);
}

/// Tiles that are dealt out, drawn and shared, whose counters must be restored; both store paths.
std::vector<Case> small_cases(int world) {
  return {small_case(world), small_case(world, true), small_case(world, false, StorePath::store16),
          small_split_case(world)};
}

void expect_right_call(const Case& which, Ranks& ranks, std::uint64_t seed) {
  gpu_test::expect_right_call<Call>(which, ranks, seed);
}

// ---- peers that never come
// -------------------------------------------------------------------------------------------

/// Rank 0 alone: what check() says, the first time and again.
std::string complaint_of_lonely_rank(const Case& which, Ranks& ranks) {
  const Call call(which, ranks.devices(), 99);
  const std::string said = gpu_test::complaint_of_lonely_rank(ranks, call, time_out);
  EXPECT_EQ(complaint<DeviceError>([&] { ranks[0].check(); }), said);
  return said;
}

void expect_recovery_from_a_missing_peer(const Case& which, const std::vector<int>& devices, int calls_before) {
  SCOPED_TRACE(which.text());
  Ranks ranks(which, devices, time_out);
  for (int call = 0; call < calls_before; ++call) {
    expect_right_call(which, ranks, static_cast<std::uint64_t>(call));
  }
  const std::string said = complaint_of_lonely_rank(which, ranks);
  EXPECT_THAT(said, HasSubstr("attention"));
  expect_names_the_missing_peer(said, calls_before + 1, "peer entry");
  Attention::reset(ranks.handles());
  EXPECT_NO_THROW(ranks[0].check());
  expect_right_call(which, ranks, 50);
  expect_right_call(which, ranks, 51);
  EXPECT_TRUE(ranks.guards_are_untouched());
}

TEST(AttentionFaults, APeerThatNeverComesOnOneGpu) {
  SKIP_WITHOUT_HOPPER(1);
  for (const Case& which : small_cases(2)) {
    expect_recovery_from_a_missing_peer(which, {0, 0}, 0);
    expect_recovery_from_a_missing_peer(which, {0, 0}, 3);
  }
}

TEST(AttentionFaults, APeerThatNeverComesOnTwoGpus) {
  SKIP_WITHOUT_HOPPER(2);
  for (const Case& which : small_cases(2)) {
    expect_recovery_from_a_missing_peer(which, {0, 1}, 0);
    expect_recovery_from_a_missing_peer(which, {0, 1}, 3);
  }
}

/// With all CTAs active any of them may be the first to give up, at any of its waits.
TEST(AttentionFaults, APeerThatNeverComesWithAllCtas) {
  SKIP_WITHOUT_HOPPER(2);
  for (const bool causal : {false, true}) {
    attention::Problem problem = make_problem(Destination::to_owners, 2, 3000, 3000, 12, 12);
    problem.causal = causal;
    const Case which = make_case(problem, 2);
    Ranks ranks(which, {0, 1}, time_out);
    expect_right_call(which, ranks, 1);
    EXPECT_THAT(complaint_of_lonely_rank(which, ranks), ContainsRegex("rank 0 waited [0-9]+ us for rank 1 in call 2"));
    Attention::reset(ranks.handles());
    expect_right_call(which, ranks, 2);
    expect_right_call(which, ranks, 3);
  }
}

/// One of three ranks is missing: the first rank that gives up signals the others.
TEST(AttentionFaults, EveryRankThatWaitsIsTold) {
  SKIP_WITHOUT_HOPPER(1);
  const Case which = small_case(3);
  Ranks ranks(which, {0, 0, 0}, time_out);
  const Call call(which, ranks.devices(), 1);
  expect_every_rank_that_waits_is_told(ranks, call, time_out);
  Attention::reset(ranks.handles());
  expect_right_call(which, ranks, 2);
}

/// The peer entered the call and was not heard of again.
TEST(AttentionFaults, APeerThatDiesInTheMiddle) {
  SKIP_WITHOUT_HOPPER(1);
  const Case which = small_case(2);
  Ranks ranks(which, {0, 0}, time_out);
  ASSERT_NO_FATAL_FAILURE(enter_first_call(ranks.signals(0) + kernels::CallPad::entered + kernels::CallPad::line));
  EXPECT_THAT(complaint_of_lonely_rank(which, ranks),
              ContainsRegex("rank 0 waited [0-9]+ us for rank 1 in call 1 and gave up: peer done"));
  Attention::reset(ranks.handles());
  expect_right_call(which, ranks, 2);
}

/// A plain attention has no waits, so a single rank gives the right result.
TEST(AttentionFaults, ALocalAttentionNeedsNoPeer) {
  SKIP_WITHOUT_HOPPER(1);
  const Case which = make_case(make_problem(Destination::local, 2, 200, 200), 2);
  Ranks ranks(which, {0, 0}, time_out);
  const Call call(which, ranks.devices(), 1);
  ranks.enqueue_rank(call, 0);
  ranks.finish();
  ranks.enqueue_rank(call, 1);
  ranks.finish();
  EXPECT_EQ(complaint_about(which, call), "");
}

// ---- peers that come late
// --------------------------------------------------------------------------------------------

TEST(AttentionFaults, APeerThatComesLate) {
  SKIP_WITHOUT_HOPPER(2);
  const Case which = make_case(make_problem(Destination::to_owners, 2, 1001, 1000, 4, 4), 2);
  Ranks ranks(which, {0, 1});
  expect_right_whoever_is_late<Call>(which, ranks);
}

/// One rank is several calls ahead; the other follows.
TEST(AttentionFaults, ARankThatRunsAhead) {
  SKIP_WITHOUT_HOPPER(2);
  for (const Case& which : small_cases(2)) {
    Ranks ranks(which, {0, 1});
    expect_right_when_a_rank_runs_ahead<Call>(which, ranks);
  }
}

// ---- ranks that disagree
// ---------------------------------------------------------------------------------------------

TEST(AttentionRefusals, RanksThatDisagreeAreNamedWithBothShapes) {
  SKIP_WITHOUT_HOPPER(1);
  const Case which = small_case(2);
  auto heap = PeerAccessHeap::create({0, 0}, std::size_t{64} << 20U);
  Attention first(heap.rank(0), which.problem, which.plan);
  const auto refusal_of = [&](const auto& change) { return refusal_after<Attention>(heap.rank(1), which, change); };
  using attention::Plan;
  using attention::Problem;
  for (const std::int64_t rows : {208, 2000}) {  // with as many signals as the first rank, and with more
    EXPECT_THAT(refusal_of([rows](Problem& problem, Plan&) { problem.rows = rows; }),
                AllOf(HasSubstr("rank 1"), HasSubstr("rows=" + std::to_string(rows)), HasSubstr("rank 0"),
                      HasSubstr("rows=200")));
  }
  EXPECT_THAT(refusal_of([](Problem& problem, Plan&) { problem.keys = 300; }),
              AllOf(HasSubstr("keys=300"), HasSubstr("keys=200")));
  EXPECT_THAT(refusal_of([](Problem& problem, Plan&) { problem.heads = 8; }),
              AllOf(HasSubstr("heads=8"), HasSubstr("heads=4")));
  EXPECT_THAT(refusal_of([](Problem& problem, Plan&) { problem.scale = 0.5F; }),
              AllOf(HasSubstr("scale=0.5"), HasSubstr("scale=0 ")));
  EXPECT_THAT(refusal_of([](Problem& problem, Plan&) { problem.destination = Destination::local; }),
              AllOf(HasSubstr("destination=local"), HasSubstr("destination=to_owners")));
  EXPECT_THAT(refusal_of([](Problem&, Plan& plan) { plan.issuers = 2; }),
              AllOf(HasSubstr("issuers=2"), HasSubstr("issuers=1")));
  // The rank stayed where it was: with the right shapes it joins.
  Attention second(heap.rank(1), which.problem, which.plan);
  const Call call(which, {0, 0}, 1);
  const std::vector<Attention*> handles{&first, &second};
  const std::vector<attention::Operands> operands{call.operands(0), call.operands(1)};
  Attention::launch_together(handles, operands, nullptr);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  for (int rank = 0; rank < 2; ++rank) {
    ASSERT_EQ(cudaMemcpy(call.result(rank), handles[static_cast<std::size_t>(rank)]->output(),
                         static_cast<std::size_t>(which.result_elements(rank)) * 2, cudaMemcpyDeviceToDevice),
              cudaSuccess);
  }
  EXPECT_EQ(complaint_about(which, call), "");
}

TEST(AttentionRefusals, ALaunchBeforeAllRanksAreMade) {
  SKIP_WITHOUT_HOPPER(1);
  const Case which = small_case(2);
  auto heap = PeerAccessHeap::create({0, 0}, std::size_t{64} << 20U);
  Attention first(heap.rank(0), which.problem, which.plan);
  const Call call(which, {0, 0}, 1);
  EXPECT_THAT(complaint<InputError>([&] { first.launch(call.operands(0), nullptr); }), HasSubstr("rank 1 has made"));
}

// ---- heaps, problems and operands that break a rule
// ------------------------------------------------------------------

TEST(AttentionRefusals, AHeapThatIsTooSmall) {
  SKIP_WITHOUT_HOPPER(1);
  for (const Destination destination : {Destination::to_owners, Destination::twin}) {
    const Case which = make_case(make_problem(destination, 2, 200, 200), 2);
    const std::size_t bytes = attention::heap_bytes(which.problem, 2) - HeapRank::default_alignment;
    expect_too_small(bytes, "attention",
                     [&](HeapRank& heap) { const Attention refused(heap, which.problem, which.plan); });
  }
}

/// heap_bytes() is enough, and what a handle has taken is free when it is gone.
TEST(AttentionRefusals, AHeapThatIsJustLargeEnough) {
  SKIP_WITHOUT_HOPPER(1);
  for (const Destination destination : {Destination::local, Destination::to_owners, Destination::twin}) {
    const Case which = make_case(make_problem(destination, 2, 200, 200), 2);
    auto heap = PeerAccessHeap::create({0, 0}, attention::heap_bytes(which.problem, 2));
    for (int time = 0; time < 2; ++time) {
      Attention first(heap.rank(0), which.problem, which.plan);
      Attention second(heap.rank(1), which.problem, which.plan);
    }
  }
}

TEST(AttentionRefusals, AProblemThatBreaksARule) {
  SKIP_WITHOUT_HOPPER(1);
  const Case which = small_case(2);
  auto heap = PeerAccessHeap::create({0, 0}, std::size_t{64} << 20U);
  using attention::Plan;
  using attention::Problem;
  const auto refusal_of = [&](const auto& change) { return refusal_after<Attention>(heap.rank(0), which, change); };
  EXPECT_THAT(refusal_of([](Problem& problem, Plan&) {
                problem.causal = true;
                problem.keys = 201;
              }),
              AllOf(HasSubstr("causal"), HasSubstr("keys is 201"), HasSubstr("rows is 200")));
  EXPECT_THAT(refusal_of([](Problem& problem, Plan&) { problem.heads = 5; }),
              AllOf(HasSubstr("heads is 5"), HasSubstr("2 ranks")));
  EXPECT_THAT(refusal_of([](Problem& problem, Plan&) { problem.kv_heads = 1; }),
              AllOf(HasSubstr("kv_heads is 1"), HasSubstr("2 ranks")));
  EXPECT_THAT(refusal_of([](Problem& problem, Plan&) {
                problem.heads = 6;
                problem.kv_heads = 4;
              }),
              AllOf(HasSubstr("heads is 6"), HasSubstr("kv_heads is 4")));
  EXPECT_THAT(refusal_of([](Problem& problem, Plan&) { problem.head_dim = 96; }), HasSubstr("head_dim is 96"));
  EXPECT_THAT(refusal_of([](Problem& problem, Plan&) { problem.rows = 0; }), HasSubstr("rows is 0"));
  EXPECT_THAT(refusal_of([](Problem& problem, Plan&) { problem.keys = 0; }), HasSubstr("keys is 0"));
  EXPECT_THAT(refusal_of([](Problem& problem, Plan&) { problem.sequences = 0; }), HasSubstr("sequences is 0"));
  EXPECT_THAT(refusal_of([](Problem&, Plan& plan) { plan.split = 2; }), HasSubstr("split is 2"));
  EXPECT_THAT(refusal_of([](Problem& problem, Plan& plan) {
                problem.causal = true;
                plan.split = 1;
              }),
              AllOf(HasSubstr("split is 1"), HasSubstr("causal")));
  EXPECT_THAT(refusal_of([](Problem&, Plan& plan) { plan.issuers = -1; }), HasSubstr("issuers is -1"));
  EXPECT_THAT(refusal_of([](Problem&, Plan& plan) { plan.store_path = StorePath::store4; }),
              HasSubstr("store_path is"));
  EXPECT_EQ(heap.rank(0).steps(), 0U) << "a refused rank has taken a step";
}

/// Each operand in turn null and off by 8 bytes; nothing is enqueued, and the next call is right.
TEST(AttentionRefusals, OperandsThatBreakARule) {
  SKIP_WITHOUT_HOPPER(1);
  const Case which = make_case(make_problem(Destination::local, 1, 200, 200), 1);
  Ranks ranks(which, {0});
  const Call call(which, {0}, 1);
  using attention::Operands;
  const auto refusal_of = [&](const std::function<void(Operands&)>& change) {
    Operands operands = call.operands(0);
    change(operands);
    return complaint<InputError>([&] { ranks[0].launch(operands, ranks.stream(0)); });
  };
  const auto shifted = [](const void* pointer) { return static_cast<const char*>(pointer) + 8; };
  EXPECT_THAT(refusal_of([](Operands& operands) { operands.query = nullptr; }), HasSubstr("operand query is null"));
  EXPECT_THAT(refusal_of([](Operands& operands) { operands.key = nullptr; }), HasSubstr("operand key is null"));
  EXPECT_THAT(refusal_of([](Operands& operands) { operands.value = nullptr; }), HasSubstr("operand value is null"));
  EXPECT_THAT(refusal_of([](Operands& operands) { operands.output = nullptr; }), HasSubstr("operand output is null"));
  EXPECT_THAT(refusal_of([&](Operands& operands) { operands.query = shifted(operands.query); }),
              AllOf(HasSubstr("operand query is at 0x"), HasSubstr("aligned to 16 bytes")));
  EXPECT_THAT(refusal_of([&](Operands& operands) { operands.key = shifted(operands.key); }),
              HasSubstr("operand key is at 0x"));
  EXPECT_THAT(refusal_of([&](Operands& operands) { operands.value = shifted(operands.value); }),
              HasSubstr("operand value is at 0x"));
  EXPECT_THAT(refusal_of([](Operands& operands) { operands.output = static_cast<char*>(operands.output) + 8; }),
              HasSubstr("operand output is at 0x"));
  EXPECT_THAT(refusal_of([](Operands& operands) { operands.log_sum_exp += 2; }),
              HasSubstr("operand log_sum_exp is at 0x"));
  ranks.finish();
  const std::vector<std::uint16_t> untouched = call.read_result(0);
  EXPECT_EQ(untouched, std::vector<std::uint16_t>(untouched.size(), 0xFFFF));
  expect_right_call(which, ranks, 2);
}

/// In a common launch one rank's operands are enough for a refusal; no rank has entered the call.
TEST(AttentionRefusals, OneRanksOperandsInACommonLaunch) {
  SKIP_WITHOUT_HOPPER(1);
  const Case which = small_case(2);
  Ranks ranks(which, {0, 0}, time_out);
  const Call call(which, ranks.devices(), 1);
  std::vector<attention::Operands> operands{call.operands(0), call.operands(1)};
  operands[1].value = nullptr;
  const std::vector<Attention*> handles = ranks.handles();
  EXPECT_THAT(complaint<InputError>([&] { Attention::launch_together(handles, operands, ranks.stream(0)); }),
              HasSubstr("operand value is null"));
  expect_right_call(which, ranks, 2);
}

TEST(AttentionRefusals, CommonLaunchesThatLackARank) {
  SKIP_WITHOUT_HOPPER(1);
  const Case which = small_case(2);
  Ranks ranks(which, {0, 0});
  const Call call(which, ranks.devices(), 1);
  expect_refusal_without_all_ranks(ranks, call);
  expect_right_call(which, ranks, 2);
}

}  // namespace
}  // namespace xstage::faults_test
