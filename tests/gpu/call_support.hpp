#pragma once
// What the GPU tests share of calls that must be right. complaint_about(which, call) is that of the operation under
// test (see reference.hpp); empty: the results are right.

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace xstage::gpu_test {

/// The results of calls that all ranks have finished.
template <class Case, class Call>
void expect_right_results(const Case& which, const std::vector<Call>& calls) {
  for (std::size_t call = 0; call < calls.size(); ++call) {
    EXPECT_EQ(complaint_about(which, calls[call]), "") << "call " << call;
  }
}

/// Calls with different operands, enqueued back to back; then all of them are looked at.
template <class Case, class Ranks, class Call>
void expect_right_calls(const Case& which, Ranks& ranks, const std::vector<Call>& calls) {
  for (const Call& call : calls) {
    ranks.enqueue(call);
  }
  ranks.finish();
  expect_right_results(which, calls);
  EXPECT_TRUE(ranks.guards_are_untouched());
}

/// A call with new operands.
template <class Call, class Case, class Ranks>
void expect_right_call(const Case& which, Ranks& ranks, std::uint64_t seed) {
  const Call call(which, ranks.devices(), seed);
  ranks.enqueue(call);
  ranks.finish();
  EXPECT_EQ(complaint_about(which, call), "") << "seed " << seed;
}

}  // namespace xstage::gpu_test
