// Plans of dispatch and combine fit on a multiprocessor, whatever the widths, ranks and tunings.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

#include "ops/moe/exchange_plan.hpp"
#include "ops/moe/problem.hpp"

namespace xstage::exchange_plan_test {
namespace {

constexpr int most_shared_bytes = kernels::most_exchange_shared_bytes;

/// Calls `check(exchange)` for all widths, some numbers of ranks, and few and many experts.
template <class Check>
void for_exchanges(const Check& check) {
  for (const int world : {1, 2, 3, 8}) {
    for (const int experts_per_rank : {1, 32, 256}) {
      for (std::int32_t hidden = 64; hidden <= 16384; hidden += 64) {
        kernels::MoeExchange exchange{};
        exchange.call.world = world;
        exchange.experts_per_rank = experts_per_rank;
        exchange.top_k = 8;
        exchange.row_bytes = 2 * hidden;
        SCOPED_TRACE(testing::Message() << world << " ranks of " << experts_per_rank << " experts, hidden " << hidden);
        check(exchange);
      }
    }
  }
}

TEST(MoeExchangePlan, DispatchFits) {
  for_exchanges([](const kernels::MoeExchange& exchange) {
    for (const int senders : {0, 1, 3, 8}) {
      for (const int under_way : {0, 4}) {
        kernels::DispatchTuning tuning;
        tuning.senders = senders;
        tuning.under_way = under_way;
        kernels::DispatchLaunch launch{};
        launch.exchange = exchange;
        kernels::plan_dispatch(launch, tuning);
        ASSERT_LE(kernels::DispatchLayout::of(launch).bytes, most_shared_bytes) << senders << " senders";
        ASSERT_GT(launch.ring.stages, launch.ring.under_way);
        ASSERT_EQ(launch.ring.stage_bytes % 16, 0);
        ASSERT_EQ(launch.copiers == 0, exchange.call.world == 1);
      }
    }
  });
}

TEST(MoeExchangePlan, CombineFits) {
  for_exchanges([](const kernels::MoeExchange& exchange) {
    for (int senders = 0; senders <= 8; ++senders) {
      for (const int under_way : {0, 1, 3}) {
        kernels::CombineTuning tuning;
        tuning.senders = senders;
        tuning.under_way = under_way;
        kernels::CombineLaunch launch{};
        launch.exchange = exchange;
        kernels::plan_combine(launch, tuning);
        ASSERT_LE(kernels::CombineLayout::of(launch).bytes, most_shared_bytes) << senders << " senders";
        for (const kernels::MoeRing& ring : {launch.ring, launch.ring_for_few}) {
          ASSERT_GT(ring.stages, ring.under_way);
          ASSERT_EQ(ring.stage_bytes % 16, 0);
        }
        ASSERT_GE(launch.groups, 1);
      }
    }
  });
}

TEST(MoeExchangePlan, PartialSumsHaveWarpsThatSendAndWarpsThatAdd) {
  for_exchanges([](const kernels::MoeExchange& exchange) {
    for (int senders = 0; senders <= 9; ++senders) {
      for (const int groups : {0, 1, 5, 100}) {
        kernels::CombineTuning tuning;
        tuning.senders = senders;
        tuning.sender_groups = groups;
        kernels::CombineLaunch launch{};
        launch.exchange = exchange;
        launch.partial_sums = 1;
        kernels::plan_combine(launch, tuning);
        ASSERT_LE(kernels::CombineLayout::of(launch).bytes, 4096) << "no rings";
        ASSERT_EQ(launch.senders == 0, exchange.call.world == 1);
        ASSERT_LE(launch.senders, kernels::most_moe_senders);
        ASSERT_GE(launch.sender_groups, 1);
        ASSERT_LE(launch.sender_groups, std::max(1, launch.senders));
        ASSERT_GE(launch.groups, 1);
      }
    }
  });
}

/// A launch has the numbers of a complete plan: none is reduced to fit.
TEST(MoeExchangePlan, LaunchesHaveTheWarpsOfThePlan) {
  for (const int world : {1, 2, 3, 8}) {
    for (const std::int64_t hidden : {64, 2048, 7168, 16384}) {
      for (const moe::Combine which : {moe::Combine::partial_sums, moe::Combine::rows}) {
        SCOPED_TRACE(testing::Message() << world << " ranks, hidden " << hidden);
        const moe::Problem problem{hidden, 64, 32, 8, 64, 0};
        moe::Plan plan;
        plan.combine = which;
        plan = moe::complete_plan(problem, plan, world, 132);
        kernels::DispatchLaunch dispatch{};
        dispatch.exchange.call.world = world;
        dispatch.exchange.experts_per_rank = problem.experts_per_rank;
        dispatch.exchange.row_bytes = static_cast<std::int32_t>(2 * hidden);
        kernels::plan_dispatch(dispatch, kernels::dispatch_tuning(plan));
        EXPECT_EQ(dispatch.senders, plan.dispatch_senders);
        EXPECT_EQ(dispatch.copiers, plan.dispatch_copiers);
        kernels::CombineLaunch combine{};
        combine.exchange = dispatch.exchange;
        combine.partial_sums = which == moe::Combine::partial_sums ? 1 : 0;
        kernels::plan_combine(combine, kernels::combine_tuning(plan));
        EXPECT_EQ(combine.senders, plan.combine_senders);
        EXPECT_EQ(combine.groups, plan.combine_adder_groups);
        if (world > 1 && which == moe::Combine::partial_sums) {
          EXPECT_EQ(combine.sender_groups, plan.combine_sender_groups);
        }
      }
    }
  }
}

}  // namespace
}  // namespace xstage::exchange_plan_test
