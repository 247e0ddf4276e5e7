// Faults of an all-to-all: peers that never arrive or arrive late, ranks that disagree, operands and heaps that break a
// rule. Nothing hangs, errors say what happened, and after reset() the next call is right.

#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "fabric/call_parameters.hpp"
#include "gpu/fault_support.hpp"
#include "ops/all_to_all/problem.hpp"
#include "ops/all_to_all/test/gpu/support.hpp"
#include "xstage/all_to_all.hpp"
#include "xstage/error.hpp"

namespace xstage::faults_test {
namespace {

using namespace std::chrono_literals;

using all_to_all::Operands;
using all_to_all::Plan;
using all_to_all::Problem;
using all_to_all_test::Call;
using all_to_all_test::Case;
using all_to_all_test::expect_right_call;
using all_to_all_test::make_case;
using all_to_all_test::Ranks;
using all_to_all_test::two_gpus;
using gpu_test::complaint;
using gpu_test::enter_first_call;
using gpu_test::expect_refusal_without_all_ranks;
using gpu_test::expect_too_small;
using gpu_test::refusal_after;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;

// ---- peers that never come, or late

constexpr auto time_out = 200ms;

/// One CTA of each rank, so that a rank alone and all together have as many.
Case small_case(int world) {
  Plan plan;
  plan.issuers = 1;
  return make_case({1, 200, 3 * world, 64}, world, plan);
}

/// Rank 0 alone: what check() says.
std::string complaint_of_lonely_rank(const Case& which, Ranks& ranks) {
  const Call call(which, ranks.devices(), 99);
  return gpu_test::complaint_of_lonely_rank(ranks, call, time_out);
}

void expect_recovery_from_a_missing_peer(const Case& which, const std::vector<int>& devices) {
  SCOPED_TRACE(which.text());
  Ranks ranks(which, devices, time_out);
  const Call last(which, devices, 1);
  ranks.enqueue(last);
  ranks.finish();
  EXPECT_THAT(complaint_of_lonely_rank(which, ranks),
              AllOf(ContainsRegex("all_to_all: rank 0 waited [0-9]+ us for rank 1 in call 2 and gave up"),
                    HasSubstr("reset()")));
  ranks.collect(last, 1);  // nothing has come to the peer that had not entered
  ranks.wait();
  last.expect_right();
  AllToAll::reset(ranks.handles());
  EXPECT_NO_THROW(ranks[0].check());
  expect_right_call(which, ranks, 50);
  expect_right_call(which, ranks, 51);
  ranks.expect_untouched_guards();
}

TEST(AllToAllFaults, APeerThatNeverComes) {
  SKIP_WITHOUT_HOPPER(1);
  expect_recovery_from_a_missing_peer(small_case(2), {0, 0});
  if (two_gpus()) {
    expect_recovery_from_a_missing_peer(small_case(2), {0, 1});
    expect_recovery_from_a_missing_peer(make_case({1, 3000, 24, 128}, 2), {0, 1});
  }
}

TEST(AllToAllFaults, APeerThatNeverComesToTheFirstCall) {
  SKIP_WITHOUT_HOPPER(1);
  const Case which = small_case(2);
  Ranks ranks(which, {0, 0}, time_out);
  EXPECT_THAT(complaint_of_lonely_rank(which, ranks),
              ContainsRegex("rank 0 waited [0-9]+ us for rank 1 in call 1 and gave up: peer entry"));
  AllToAll::reset(ranks.handles());
  expect_right_call(which, ranks, 1);
}

/// The peer entered the call and was not heard of again.
TEST(AllToAllFaults, APeerThatDiesInTheMiddle) {
  SKIP_WITHOUT_HOPPER(1);
  const Case which = small_case(2);
  Ranks ranks(which, {0, 0}, time_out);
  ASSERT_NO_FATAL_FAILURE(enter_first_call(ranks.signals(0) + kernels::CallPad::entered + kernels::CallPad::line));
  EXPECT_THAT(complaint_of_lonely_rank(which, ranks),
              ContainsRegex("rank 0 waited [0-9]+ us for rank 1 in call 1 and gave up: peer done"));
  AllToAll::reset(ranks.handles());
  expect_right_call(which, ranks, 2);
}

/// One of three ranks is missing: the first rank that gives up signals the others.
TEST(AllToAllFaults, EveryRankThatWaitsIsTold) {
  SKIP_WITHOUT_HOPPER(1);
  const Case which = small_case(3);
  Ranks ranks(which, {0, 0, 0}, time_out);
  EXPECT_THAT(complaint_of_lonely_rank(which, ranks), HasSubstr("rank 0 waited"));
  const Call call(which, ranks.devices(), 1);
  ranks.enqueue_rank(call, 1);
  ranks.wait();
  EXPECT_THAT(complaint<DeviceError>([&] { ranks[1].check(); }),
              AllOf(HasSubstr("rank 1 waited"), HasSubstr("for rank 2"), HasSubstr("another wait had given up")));
  EXPECT_NE(complaint<DeviceError>([&] { ranks.enqueue(call); }), "");
  AllToAll::reset(ranks.handles());
  expect_right_call(which, ranks, 2);
}

/// One rank is several calls ahead; the other follows.
TEST(AllToAllFaults, ARankThatRunsAhead) {
  SKIP_WITHOUT_HOPPER(2);
  for (const Case& which : {small_case(2), make_case({1, 5000, 24, 128}, 2)}) {
    Ranks ranks(which, {0, 1});
    std::vector<Call> calls;
    for (std::uint64_t call = 0; call < 5; ++call) {
      calls.emplace_back(which, ranks.devices(), call);  // waits for the GPUs: all of them before the first launch
    }
    for (const int first : {0, 1}) {
      for (const int rank : {first, 1 - first}) {
        for (const Call& call : calls) {
          ranks.enqueue_rank(call, rank);
        }
        std::this_thread::sleep_for(20ms);
      }
      ranks.finish();
      for (const Call& call : calls) {
        call.expect_right();
      }
    }
  }
}

// ---- what is refused

TEST(AllToAllRefusals, RanksThatDisagreeAreNamedWithBothShapes) {
  SKIP_WITHOUT_HOPPER(1);
  const Case which = small_case(2);
  auto heap = PeerAccessHeap::create({0, 0}, std::size_t{64} << 20U);
  AllToAll first(heap.rank(0), which.problem, which.plan);
  const auto refusal_of = [&](const auto& change) { return refusal_after<AllToAll>(heap.rank(1), which, change); };
  EXPECT_THAT(refusal_of([](Problem& problem, Plan&) { problem.rows = 208; }),
              AllOf(HasSubstr("rank 1"), HasSubstr("rows=208"), HasSubstr("rank 0"), HasSubstr("rows=200")));
  EXPECT_THAT(refusal_of([](Problem& problem, Plan&) { problem.heads = 8; }), HasSubstr("heads=8"));
  EXPECT_THAT(refusal_of([](Problem& problem, Plan&) { problem.sequences = 2; }), HasSubstr("sequences=2"));
  const Call call(which, {0, 0}, 1);
  EXPECT_THAT(complaint<InputError>([&] { first.launch(call.operands(0), nullptr); }), HasSubstr("rank 1 has made"))
      << "a launch before all ranks are made";
  // The rank stayed where it was: with the right shapes it joins.
  AllToAll second(heap.rank(1), which.problem, which.plan);
  const std::vector<AllToAll*> handles{&first, &second};
  const std::vector<Operands> operands{call.operands(0), call.operands(1)};
  AllToAll::launch_together(handles, operands, nullptr);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_NO_THROW(first.check());
  EXPECT_NO_THROW(second.check());
}

TEST(AllToAllRefusals, AHeapThatIsTooSmall) {
  SKIP_WITHOUT_HOPPER(1);
  const Case which = small_case(2);
  const std::size_t bytes = all_to_all::heap_bytes(which.problem, 2) - HeapRank::default_alignment;
  expect_too_small(bytes, "all_to_all output'",
                   [&](HeapRank& heap) { const AllToAll refused(heap, which.problem, which.plan); });
}

TEST(AllToAllRefusals, AProblemOrPlanThatBreaksARule) {
  SKIP_WITHOUT_HOPPER(1);
  const Case which = small_case(2);
  auto heap = PeerAccessHeap::create({0, 0}, std::size_t{64} << 20U);
  Problem problem = which.problem;
  problem.heads = 7;
  EXPECT_THAT(complaint<InputError>([&] { const AllToAll refused(heap.rank(0), problem, which.plan); }),
              HasSubstr("heads is 7: it must be a multiple of the 2 ranks"));
  Plan plan = which.plan;
  plan.stages = 1;
  EXPECT_THAT(complaint<InputError>([&] { const AllToAll refused(heap.rank(0), which.problem, plan); }),
              HasSubstr("stages is 1"));
  EXPECT_EQ(heap.rank(0).steps(), 0U) << "a refused rank has taken a step";
}

TEST(AllToAllRefusals, InputsThatBreakARule) {
  SKIP_WITHOUT_HOPPER(1);
  const Case which = small_case(1);
  Ranks ranks(which, {0});
  const Call call(which, {0}, 1);
  const char* input = static_cast<const char*>(call.operands(0).input);
  EXPECT_THAT(complaint<InputError>([&] { ranks[0].launch({nullptr}, ranks.stream(0)); }),
              HasSubstr("operand input is null"));
  EXPECT_THAT(complaint<InputError>([&] { ranks[0].launch({input + 8}, ranks.stream(0)); }),
              AllOf(HasSubstr("operand input is at 0x"), HasSubstr("aligned to 16 bytes")));
  expect_right_call(which, ranks, 2);
}

TEST(AllToAllRefusals, CommonLaunchesThatLackARank) {
  SKIP_WITHOUT_HOPPER(1);
  const Case which = small_case(2);
  Ranks ranks(which, {0, 0});
  const Call call(which, ranks.devices(), 1);
  expect_refusal_without_all_ranks(ranks, call);
  expect_right_call(which, ranks, 2);
}

/// CTAs count calls each for themselves: all launches of a handle have as many.
TEST(AllToAllRefusals, CommonLaunchesThatFollowSingleOnes) {
  SKIP_WITHOUT_HOPPER(1);
  const Case which = make_case({1, 5000, 12, 128}, 1);
  const Case shared = make_case({1, 5000, 12, 128}, 2);
  Ranks ranks(shared, {0, 0});
  expect_right_call(shared, ranks, 1);
  const Call call(shared, {0, 0}, 2);
  EXPECT_THAT(complaint<InputError>([&] { ranks[0].launch(call.operands(0), ranks.stream(0)); }),
              HasSubstr("use launch or launch_together, not both"));
  expect_right_call(shared, ranks, 3);
  Ranks alone(which, {0});  // a single rank shares its GPU with no other: both launches have the same number of CTAs
  expect_right_call(which, alone, 4);
  const Call single(which, {0}, 5);
  const std::vector<Operands> operands{single.operands(0)};
  AllToAll::launch_together(alone.handles(), operands, alone.stream(0));
  alone.collect(single, 0);
  alone.finish();
  single.expect_right();
}

}  // namespace
}  // namespace xstage::faults_test
