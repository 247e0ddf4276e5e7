#pragma once
// What the GPU tests share of faults: peers that never come or come late, and what is refused.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "gpu/call_support.hpp"
#include "xstage/error.hpp"
#include "xstage/symmetric_heap.hpp"

namespace xstage::gpu_test {

/// What `function` says when it throws this error; empty: it throws nothing.
template <typename Error, typename Function>
std::string complaint(Function&& function) {
  try {
    function();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// ---- peers that never come

/// Within the time-out and a second.
void expect_end_in_time(std::chrono::microseconds time_out, const std::function<void()>& function);

/// Rank 0 alone: what check() says, within the time-out and a second. It stays so: no call, and nothing enqueued, until
/// reset().
template <class Ranks, class Call>
std::string complaint_of_lonely_rank(Ranks& ranks, const Call& call, std::chrono::microseconds time_out) {
  expect_end_in_time(time_out, [&] {
    ranks.enqueue_rank(call, 0);
    ranks.wait();
  });
  const std::string said = complaint<DeviceError>([&] { ranks[0].check(); });
  EXPECT_EQ(complaint<DeviceError>([&] { ranks[0].launch(call.operands(0), ranks.stream(0)); }), said);
  return said;
}

/// What rank 0 says of rank 1 in its call of this number, counted from 1.
void expect_names_the_missing_peer(const std::string& said, int call, const std::string& first_wait);

/// Of three ranks one is missing: the first that gives up tells the others.
template <class Ranks, class Call>
void expect_every_rank_that_waits_is_told(Ranks& ranks, const Call& call, std::chrono::microseconds time_out) {
  using testing::HasSubstr;
  ranks.enqueue_rank(call, 0);
  ranks.wait();
  EXPECT_THAT(complaint<DeviceError>([&] { ranks[0].check(); }), HasSubstr("rank 0 waited"));
  expect_end_in_time(time_out, [&] {
    ranks.enqueue_rank(call, 1);
    ranks.wait();
  });
  EXPECT_THAT(complaint<DeviceError>([&] { ranks[1].check(); }),
              testing::AllOf(HasSubstr("rank 1 waited"), HasSubstr("for rank 2")));
  EXPECT_NE(complaint<DeviceError>([&] { ranks.enqueue(call); }), "");
}

/// Stores what a peer does that enters its first call, in its place in a signal pad.
void enter_first_call(std::uint32_t* entered);

// ---- peers that come late

/// What both ranks enqueue, `late` only after a pause.
void enqueue_late(int late, std::chrono::milliseconds pause, const std::function<void(int rank)>& enqueue);

/// A call in which one rank is late, then one in which the other is.
template <class Call, class Case, class Ranks>
void expect_right_whoever_is_late(const Case& which, Ranks& ranks) {
  for (int late = 0; late < 2; ++late) {
    const Call call(which, ranks.devices(), static_cast<std::uint64_t>(late));
    enqueue_late(late, std::chrono::milliseconds(50), [&](int rank) { ranks.enqueue_rank(call, rank); });
    ranks.finish();
    EXPECT_EQ(complaint_about(which, call), "") << "rank " << late << " was late";
  }
}

/// One rank is several calls ahead; the other follows.
template <class Call, class Case, class Ranks>
void expect_right_when_a_rank_runs_ahead(const Case& which, Ranks& ranks) {
  std::vector<Call> calls;
  for (std::uint64_t call = 0; call < 5; ++call) {
    calls.emplace_back(which, ranks.devices(), call);  // waits for the GPUs: all of them before the first launch
  }
  enqueue_late(1, std::chrono::milliseconds(20), [&](int rank) {
    for (const Call& call : calls) {
      ranks.enqueue_rank(call, rank);
    }
  });
  ranks.finish();
  expect_right_results(which, calls);
}

// ---- what is refused

/// What making an operation says after a change to its problem and plan: change(problem, plan).
template <class Operation, class Case, class Change>
std::string refusal_after(HeapRank& heap, const Case& which, Change&& change) {
  auto problem = which.problem;
  auto plan = which.plan;
  change(problem, plan);
  return complaint<InputError>([&] { const Operation refused(heap, problem, plan); });
}

/// On a heap of so many bytes make(rank's heap) finds no place for the buffer whose name begins like that; what it has
/// taken before is free again.
void expect_too_small(std::size_t bytes, const std::string& buffer, const std::function<void(HeapRank&)>& make);

/// Common launches of a part of two ranks, and of none.
template <class Ranks, class Call>
void expect_refusal_without_all_ranks(Ranks& ranks, const Call& call) {
  using Operation = std::remove_reference_t<decltype(ranks[0])>;
  using Operands = decltype(call.operands(0));
  using testing::HasSubstr;
  const std::vector<Operation*> all = ranks.handles();
  const std::vector<Operands> operands{call.operands(0), call.operands(1)};
  const std::span<Operation* const> handles(all);
  const std::span<const Operands> addresses(operands);
  const auto refusal_of = [&](std::span<Operation* const> some, std::span<const Operands> with) {
    return complaint<InputError>([&] { Operation::launch_together(some, with, ranks.stream(0)); });
  };
  EXPECT_THAT(refusal_of(handles.first(1), addresses.first(1)), HasSubstr("1 handles and 1 operands"));
  EXPECT_THAT(refusal_of(handles, addresses.first(1)), HasSubstr("2 handles and 1 operands"));
  EXPECT_THAT(refusal_of({}, {}), HasSubstr("0 handles and 0 operands"));
}

}  // namespace xstage::gpu_test
