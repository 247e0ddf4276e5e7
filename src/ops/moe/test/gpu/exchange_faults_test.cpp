// Dispatch and combine with a missing peer: one that never arrives, one that stops between its counts and its tokens,
// one that stops between dispatch and combine. The others end, report what they waited for, and continue after a reset.

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "ops/moe/test/gpu/exchange_support.hpp"
#include "xstage/error.hpp"

namespace xstage::exchange_faults_test {
namespace {

using moe_test::Call;
using moe_test::Case;
using moe_test::ExchangeRank;
using moe_test::ExchangeRanks;
using moe_test::virtual_ranks;

constexpr auto time_out = std::chrono::milliseconds(50);

Case two_ranks() {
  Case which;
  which.ranks = 2;
  which.hidden = 256;
  which.experts_per_rank = 32;
  which.top_k = 6;
  which.most_tokens = 64;
  return which;
}

moe::Routing routing_of(const Case& which) {
  moe::RoutingRequest request;
  request.world = which.ranks;
  request.experts_per_rank = which.experts_per_rank;
  request.top_k = which.top_k;
  request.tokens = {64, 50};
  return moe::make_routing(request);
}

/// What check() says.
std::string complaint_of(const ExchangeRank& rank) {
  try {
    rank.check();
  } catch (const DeviceError& error) {
    return error.what();
  }
  return "nothing";
}

void expect_right_after_reset(ExchangeRanks& ranks, Call& call) {
  for (int rank = 0; rank < ranks.count(); ++rank) {
    ranks[rank].restore();
  }
  call.enqueue(ranks);
  ranks.finish();
  call.expect_right();
}

TEST(MoeExchangeFaults, APeerThatNeverComes) {
  SKIP_WITHOUT_HOPPER(1);
  const Case which = two_ranks();
  for (const int counted_by_all : {-1, 0}) {
    Case counted = which;
    counted.dispatch.counted_by_all = counted_by_all;
    counted.partial_sums = counted_by_all == 0;
    ExchangeRanks ranks(counted, virtual_ranks(2), time_out);
    Call call(counted, virtual_ranks(2), routing_of(which), 1);
    call.enqueue(ranks);
    ranks.finish();
    ranks[0].enqueue_dispatch(ranks.stream(0));
    kernels::launch_combine(ranks[0].combine(), ranks[0].blocks(), ranks.stream(0));
    ranks.wait();
    EXPECT_THROW(ranks[0].check(), DeviceError);
    const auto* blocks = ranks[0].dispatch().exchange.rows.first_block;
    std::vector<std::int32_t> seen(33, -1);
    ASSERT_EQ(cudaMemcpy(seen.data(), blocks, seen.size() * 4, cudaMemcpyDeviceToHost), cudaSuccess);
    EXPECT_EQ(seen, std::vector<std::int32_t>(33, 0)) << "kernels behind a call that was given up must find no rows";
    expect_right_after_reset(ranks, call);
  }
}

/// The peer's counts have arrived, with the number of this call; its tokens never arrive.
TEST(MoeExchangeFaults, APeerThatStopsBeforeItsTokens) {
  SKIP_WITHOUT_HOPPER(1);
  const Case which = two_ranks();
  ExchangeRanks ranks(which, virtual_ranks(2), time_out);
  Call call(which, virtual_ranks(2), routing_of(which), 1);
  call.set_operands(ranks);
  constexpr std::uint64_t first_call = std::uint64_t{1} << 32U;
  std::vector<std::uint64_t> counts(static_cast<std::size_t>(kernels::MoeCountLine::words(64)), first_call);
  counts[3] += 5;   // choices of an expert of rank 0
  counts[64] += 5;  // tokens
  std::uint64_t* of_peer = ranks[0].dispatch().counts[0] + counts.size();
  ASSERT_EQ(cudaMemcpy(of_peer, counts.data(), counts.size() * 8, cudaMemcpyHostToDevice), cudaSuccess);
  ranks[0].enqueue_dispatch(ranks.stream(0));
  ranks.wait();
  const std::string complaint = complaint_of(ranks[0]);
  EXPECT_NE(complaint.find("sent tokens"), std::string::npos) << complaint;
  EXPECT_NE(complaint.find("rank 1"), std::string::npos) << complaint;
  expect_right_after_reset(ranks, call);
}

TEST(MoeExchangeFaults, APeerThatStopsBeforeCombine) {
  SKIP_WITHOUT_HOPPER(1);
  for (const bool partial_sums : {false, true}) {
    Case which = two_ranks();
    which.partial_sums = partial_sums;
    ExchangeRanks ranks(which, virtual_ranks(2), time_out);
    Call call(which, virtual_ranks(2), routing_of(which), 1);
    call.set_operands(ranks);
    ranks.dispatch();
    ranks.finish();
    ranks[0].enqueue_combine(ranks.stream(0));
    ranks.wait();
    const std::string complaint = complaint_of(ranks[0]);
    EXPECT_NE(complaint.find("returned rows"), std::string::npos) << complaint;
    EXPECT_NE(complaint.find("rank 1"), std::string::npos) << complaint;
    expect_right_after_reset(ranks, call);
  }
}

}  // namespace
}  // namespace xstage::exchange_faults_test
