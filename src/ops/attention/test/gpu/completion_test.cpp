// Calls with Completion::sent, which end when this rank's own stores have been performed: a reader of results waits for
// them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "gpu/call_support.hpp"
#include "gpu/fault_support.hpp"
#include "ops/attention/test/gpu/reference.hpp"
#include "ops/attention/test/gpu/support.hpp"
#include "xstage/error.hpp"

namespace xstage::completion_test {
namespace {

using attention::Destination;
using attention_test::Call;
using attention_test::Case;
using attention_test::complaint_about;
using attention_test::make_case;
using attention_test::make_problem;
using attention_test::Random;
using attention_test::random_case;
using attention_test::Ranks;
using gpu_test::complaint;
using gpu_test::expect_right_call;
using gpu_test::expect_right_calls;
using gpu_test::expect_right_whoever_is_late;
using gpu_test::virtual_ranks;
using testing::HasSubstr;
using namespace std::chrono_literals;

/// Enqueues calls back to back, each with its wait, then verifies all of them.
void expect_right(const Case& which, const std::vector<int>& devices, std::uint64_t seed) {
  SCOPED_TRACE(which.text());
  Ranks ranks(which, devices);
  ranks.complete_by(Completion::sent);
  std::vector<Call> calls;
  for (std::uint64_t call = 0; call < 3; ++call) {
    calls.emplace_back(which, devices, seed + call);
  }
  expect_right_calls(which, ranks, calls);
}

TEST(AttentionCompletion, SentAndAwaitedOnVirtualRanks) {
  SKIP_WITHOUT_HOPPER(1);
  Random random(81);
  for (const int world : {1, 2, 3, 8}) {
    for (int which = 0; which < 4; ++which) {
      expect_right(random_case(Destination::to_owners, world, random), virtual_ranks(world),
                   static_cast<std::uint64_t>(10 * which));
    }
  }
}

TEST(AttentionCompletion, SentAndAwaitedOnTwoGpus) {
  SKIP_WITHOUT_HOPPER(2);
  Random random(82);
  for (int which = 0; which < 12; ++which) {
    expect_right(random_case(Destination::to_owners, 2, random), {0, 1}, static_cast<std::uint64_t>(10 * which));
  }
}

/// Without the wait the copy behind the call would find what was there before.
TEST(AttentionCompletion, ALatePeerIsAwaitedOnTwoGpus) {
  SKIP_WITHOUT_HOPPER(2);
  const Case which = make_case(make_problem(Destination::to_owners, 2, 1001, 1000, 4, 4), 2);
  Ranks ranks(which, {0, 1});
  ranks.complete_by(Completion::sent);
  expect_right_whoever_is_late<Call>(which, ranks);
}

/// Calls that wait and calls that do not count alike.
TEST(AttentionCompletion, BothWaysInTurn) {
  SKIP_WITHOUT_HOPPER(1);
  const Case which = make_case(make_problem(Destination::to_owners, 2, 300, 400), 2);
  Ranks ranks(which, virtual_ranks(2));
  for (std::uint64_t call = 0; call < 6; ++call) {
    ranks.complete_by(call % 2 == 0 ? Completion::sent : Completion::arrived);
    const Call each(which, ranks.devices(), call);
    ranks.enqueue(each);
    ranks.finish();
    EXPECT_EQ(complaint_about(which, each), "") << "call " << call;
  }
}

TEST(AttentionCompletion, AWaitForAPeerThatNeverComesEnds) {
  SKIP_WITHOUT_HOPPER(2);
  const Case which = make_case(make_problem(Destination::to_owners, 2, 300, 400), 2);
  Ranks ranks(which, {0, 1}, 20ms);
  ranks.complete_by(Completion::sent);
  const Call call(which, ranks.devices(), 1);
  ranks.enqueue_rank(call, 0);
  ranks.wait();
  EXPECT_THAT(complaint<DeviceError>([&] { ranks[0].check(); }), HasSubstr("rank 1"));
  Attention::reset(ranks.handles());
  expect_right_call<Call>(which, ranks, 2);
}

TEST(AttentionCompletion, AWaitBeforeTheFirstLaunchIsRefused) {
  SKIP_WITHOUT_HOPPER(1);
  const Case which = make_case(make_problem(Destination::to_owners, 2, 300, 400), 2);
  Ranks ranks(which, virtual_ranks(2));
  EXPECT_THROW(ranks[0].await_arrival(ranks.stream(0)), InputError);
}

/// No peer stores to a rank of a world of one.
TEST(AttentionCompletion, AloneThereIsNothingToWaitFor) {
  SKIP_WITHOUT_HOPPER(1);
  const Case which = make_case(make_problem(Destination::local, 1, 300, 400), 1);
  Ranks ranks(which, {0});
  EXPECT_NO_THROW(ranks[0].await_arrival(ranks.stream(0)));
  ranks.complete_by(Completion::sent);
  const Call call(which, {0}, 1);
  ranks.enqueue(call);
  ranks.finish();
  EXPECT_EQ(complaint_about(which, call), "");
}

/// Some warpgroups of the last tile have no rows, and only pass its many key blocks over.
TEST(AttentionCompletion, ManyKeysForATileOfFewRows) {
  SKIP_WITHOUT_HOPPER(1);
  attention::Plan plan;
  plan.issuers = 2;
  for (const std::int64_t rows : {1, 65, 128}) {
    const Case which = make_case(make_problem(Destination::to_owners, 2, rows, 20000, 1, 1), 2, plan);
    expect_right(which, virtual_ranks(2), static_cast<std::uint64_t>(rows));
  }
}

}  // namespace
}  // namespace xstage::completion_test
