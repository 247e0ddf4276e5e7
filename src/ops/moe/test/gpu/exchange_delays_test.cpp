// Results of dispatch and combine do not depend on which warp or rank is late: warps sleep at random at every store,
// flag and wait.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "gpu/delay_support.hpp"
#include "ops/moe/test/gpu/exchange_support.hpp"

namespace xstage::exchange_delays_test {
namespace {

using moe_test::Call;
using moe_test::Case;
using moe_test::ExchangeRanks;
using moe_test::Random;
using moe_test::virtual_ranks;

/// Runs calls back to back, so that an early rank meets memory of the previous call that a late rank still reads.
void expect_right_in_spite_of_delays(int ranks_in_call, const std::vector<int>& devices, Random& random) {
  constexpr int calls = 3;
  Case which = moe_test::random_case(ranks_in_call, random);
  which.most_tokens = std::min<std::int64_t>(which.most_tokens, 300);
  SCOPED_TRACE(which.text());
  ExchangeRanks ranks(which, devices);
  std::vector<Call> made;
  made.reserve(calls);
  for (std::uint32_t call = 0; call < calls; ++call) {
    made.emplace_back(which, devices, moe_test::random_routing(which, random), call + 1);
    for (int rank = 0; rank < ranks.count(); ++rank) {
      ranks[rank].set_delays({gpu_test::longest_delay_ns, gpu_test::delay_seed(call, rank)});
    }
    made.back().enqueue(ranks);
  }
  ranks.finish();
  for (const Call& call : made) {
    call.expect_right();
  }
}

TEST(MoeExchangeDelays, BetweenVirtualRanks) {
  SKIP_WITHOUT_HOPPER(1);
  Random random(700);
  for (const int ranks : {2, 3, 4, 8}) {
    for (int repetition = 0; repetition < 4; ++repetition) {
      expect_right_in_spite_of_delays(ranks, virtual_ranks(ranks), random);
    }
  }
}

TEST(MoeExchangeDelays, BetweenTwoGpus) {
  SKIP_WITHOUT_HOPPER(2);
  Random random(800);
  for (int repetition = 0; repetition < 12; ++repetition) {
    expect_right_in_spite_of_delays(2, {0, 1}, random);
  }
}

}  // namespace
}  // namespace xstage::exchange_delays_test
