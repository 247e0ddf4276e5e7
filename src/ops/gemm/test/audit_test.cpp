// The audit of fused GEMMs, with numbers that can be checked by hand: on the made-up platform R is 400,000 bytes/us,
// T_iss0 0.5 us and Q 3,000,000 bytes; at 792 TFLOP/s one of 132 multiprocessors does 6e6 operations a microsecond. 132
// tiles of 128 x 256 bf16 are 8,650,752 bytes, which drain in 21.62688 us.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "unit/audit_platform.hpp"
#include "xstage/error.hpp"
#include "xstage/gemm.hpp"

namespace xstage::gemm::audit_test {
namespace {

using testing::HasSubstr;

constexpr int multiprocessors = 132;
constexpr double tensor_tflops = 792;
constexpr double wave_bytes = 132 * 65536.0;
constexpr double wave_drain_us = 21.62688;
constexpr double microsecond_tolerance = 1e-6;

Platform bulk_platform() {
  Platform platform = round_platform();
  platform.paths[0].path = StorePath::bulk;
  platform.paths[0].capacity = {{132, known(3e6), not_measured, not_measured}};
  return platform;
}

Problem problem_of(Operation operation, std::int64_t m, std::int64_t n, std::int64_t k) {
  Problem problem;
  problem.operation = operation;
  problem.m = m;
  problem.n = n;
  problem.k = k;
  return problem;
}

/// The rule's plan with this interval between groups of stores, 0: no pacing.
Plan plan_for(const Problem& problem, int world, int store_interval_ns) {
  Plan plan = make_plan(problem, world, multiprocessors);
  plan.store_interval_ns = store_interval_ns;
  return plan;
}

PlanAudit audit_of(const Problem& problem, const Plan& plan, int world) {
  return audit_plan(problem, plan, world, multiprocessors, bulk_platform(), tensor_tflops);
}

/// 2 x 512 cluster tiles on 66 clusters, 16 waves: 7 that store everywhere, one with 50 such clusters, 8 of own tiles.
Problem reduce_scatter(std::int64_t k) { return problem_of(Operation::reduce_scatter, 8192, 8192, k); }

TEST(GemmAudit, LongMainLoopsHideAReduceScatter) {
  const Problem problem = reduce_scatter(8192);
  const PlanAudit audit = audit_of(problem, plan_for(problem, 2, 0), 2);
  EXPECT_EQ(audit.waves, 16);
  const double main_loop_us = 2.0 * 128 * 256 * 4096 / 6e6;  // 44.74
  EXPECT_DOUBLE_EQ(audit.main_loop_us, main_loop_us);
  EXPECT_DOUBLE_EQ(audit.remote_bytes, wave_bytes);
  EXPECT_NEAR(audit.drain_us, wave_drain_us, microsecond_tolerance);
  EXPECT_EQ(audit.stall_us, 0);
  EXPECT_EQ(audit.aligned_stall_us, 0);
  EXPECT_DOUBLE_EQ(audit.all_remote_bytes, 4096.0 * 8192 * 2);
  EXPECT_NEAR(audit.all_drain_us, 167.77216, microsecond_tolerance);
  EXPECT_EQ(audit.tail_us, 0);  // own tiles come last
  EXPECT_NEAR(audit.predicted_us, 16 * main_loop_us + audit.launch_us, microsecond_tolerance);
}

TEST(GemmAudit, ShortMainLoopsStallByWhatTheDrainTakesLonger) {
  const Problem problem = reduce_scatter(1024);
  const PlanAudit audit = audit_of(problem, plan_for(problem, 2, 0), 2);
  const double main_loop_us = 2.0 * 128 * 256 * 512 / 6e6;  // 5.59
  const double stall_us = wave_drain_us - main_loop_us;
  const double stall_of_part_us = 100 * 65536 / 400e3 - main_loop_us;
  EXPECT_NEAR(audit.stall_us, stall_us, microsecond_tolerance);
  EXPECT_NEAR(audit.aligned_stall_us, stall_us, microsecond_tolerance);
  EXPECT_NEAR(audit.predicted_us, 16 * main_loop_us + 7 * stall_us + stall_of_part_us + audit.launch_us,
              microsecond_tolerance);
}

TEST(GemmAudit, PacingSetsTheDrainTimeBelowTheDrainRate) {
  const Problem problem = reduce_scatter(8192);
  // 8 groups of 32 rows x 64 columns for each of the two store warps.
  const PlanAudit paced = audit_of(problem, plan_for(problem, 2, 4000), 2);
  EXPECT_NEAR(paced.drain_us, 32, microsecond_tolerance);
  EXPECT_EQ(paced.stall_us, 0);
  EXPECT_EQ(paced.aligned_stall_us, 0);
  const PlanAudit too_slow = audit_of(problem, plan_for(problem, 2, 8000), 2);
  EXPECT_NEAR(too_slow.stall_us, 64 - too_slow.main_loop_us, microsecond_tolerance);
  EXPECT_NEAR(too_slow.all_drain_us, paced.all_drain_us, microsecond_tolerance);
  const PlanAudit faster_than_the_fabric = audit_of(problem, plan_for(problem, 2, 1000), 2);
  EXPECT_NEAR(faster_than_the_fabric.drain_us, wave_drain_us, microsecond_tolerance);
}

TEST(GemmAudit, WhatIsNotStagedIsIssuedWhileTheWarpgroupWaits) {
  const Problem problem = reduce_scatter(8192);
  Plan plan = plan_for(problem, 2, 0);
  plan.staging_chunks = 1;  // a quarter of the tile
  const PlanAudit audit = audit_of(problem, plan, 2);
  EXPECT_NEAR(audit.stall_us, 0.75 * 0.5, microsecond_tolerance);
  // Aligned: V/R - (Q + V/4)/R.
  EXPECT_NEAR(audit.aligned_stall_us, wave_drain_us - (3e6 + wave_bytes / 4) / 400e3, microsecond_tolerance);
  plan.store_interval_ns = 4000;
  const PlanAudit paced = audit_of(problem, plan, 2);
  EXPECT_NEAR(paced.stall_us, 0.75 * 32, microsecond_tolerance);
  EXPECT_NEAR(paced.aligned_stall_us, 0.75 * 32, microsecond_tolerance);
}

TEST(GemmAudit, PartialSumsInFp32AreTwiceTheVolume) {
  Problem problem = reduce_scatter(8192);
  problem.fp32_partials = true;
  const PlanAudit audit = audit_of(problem, plan_for(problem, 2, 4000), 2);
  EXPECT_DOUBLE_EQ(audit.remote_bytes, 2 * wave_bytes);
  EXPECT_DOUBLE_EQ(audit.all_remote_bytes, 4096.0 * 8192 * 4);
  EXPECT_NEAR(audit.drain_us, 64, microsecond_tolerance);                                       // twice as many groups
  EXPECT_NEAR(audit.stall_us, std::max(32.0, 64 - audit.main_loop_us), microsecond_tolerance);  // half is staged
}

TEST(GemmAudit, UnknownCapacityLeavesOnlyTheAlignedStallOpen) {
  const Problem problem = reduce_scatter(8192);
  Platform platform = bulk_platform();
  platform.paths[0].capacity.clear();
  const auto audit = [&](int interval_ns) {
    return audit_plan(problem, plan_for(problem, 2, interval_ns), 2, multiprocessors, platform, tensor_tflops);
  };
  EXPECT_TRUE(std::isnan(audit(0).aligned_stall_us));
  EXPECT_EQ(audit(0).stall_us, 0);
  EXPECT_EQ(audit(4000).aligned_stall_us, 0);  // paced stores do not fill the X-Stage
}

TEST(GemmAudit, AllToAllSendsTheHeadsOfItsPeers) {
  Problem problem = problem_of(Operation::all_to_all, 8192, 12288, 4096);
  problem.parts.assign(3, {32, false, false});
  for (const int world : {2, 4, 8}) {
    const PlanAudit audit = audit_of(problem, plan_for(problem, world, 0), world);
    EXPECT_DOUBLE_EQ(audit.all_remote_bytes, 8192.0 / world * 12288 * 2 * (world - 1) / world) << world;
  }
  EXPECT_EQ(audit_of(problem, plan_for(problem, 2, 0), 2).tail_us, 0);  // own heads come last
}

TEST(GemmAudit, AllReduceInTwoShotsEndsWithItsBroadcast) {
  const Problem problem = problem_of(Operation::all_reduce, 2048, 8192, 8192);
  const PlanAudit audit = audit_of(problem, plan_for(problem, 4, 0), 4);
  // Partial tiles of three blocks of columns, then the sums of the own block to three peers.
  EXPECT_DOUBLE_EQ(audit.all_remote_bytes, 2 * 3 * 2048.0 * 2048 * 2);
  EXPECT_EQ(audit.waves, 4);  // 66, 66, 66 and 58 of 256 cluster tiles, the last 64 of them own ones
  EXPECT_NEAR(audit.tail_us, 3 * 116 * 65536 / 400e3, microsecond_tolerance);
}

TEST(GemmAudit, ExchangeThroughRegistersSendsEveryValueToEveryPeer) {
  const Problem problem = problem_of(Operation::all_reduce, 16, 8192, 8192);
  const Plan plan = make_plan(problem, 2, multiprocessors);
  ASSERT_EQ(plan.tile_columns, 64);
  ASSERT_EQ(plan.all_reduce, AllReduceAlgorithm::one_shot);
  const PlanAudit audit = audit_of(problem, plan, 2);
  EXPECT_DOUBLE_EQ(audit.all_remote_bytes, 16.0 * 8192 * 2);
  EXPECT_EQ(audit.waves, 1);
  EXPECT_NEAR(audit.tail_us, audit.all_remote_bytes / 400e3, microsecond_tolerance);
  EXPECT_NEAR(audit.predicted_us, audit.main_loop_us + audit.tail_us + audit.launch_us, microsecond_tolerance);
}

TEST(GemmAudit, AllGatherEndsWhenItsLastChunkIsMultiplied) {
  const Problem problem = problem_of(Operation::all_gather, 8192, 8192, 8192);
  Plan plan = make_plan(problem, 2, multiprocessors);
  ASSERT_EQ(plan.gather, GatherPath::push);
  const double shard_bytes = 4096.0 * 8192 * 2;
  const double main_loop_us = 2.0 * 128 * 256 * 8192 / 6e6;  // 89.48, 8 waves
  plan.push_interval_ns = 4000;                              // 132 x 8 KiB in 4 us: 270,336 bytes/us
  const PlanAudit hidden = audit_of(problem, plan, 2);
  EXPECT_DOUBLE_EQ(hidden.all_remote_bytes, shard_bytes);
  EXPECT_NEAR(hidden.remote_bytes, 270336 * main_loop_us, 1);
  EXPECT_EQ(hidden.stall_us, 0);
  EXPECT_EQ(hidden.tail_us, 0);
  EXPECT_NEAR(hidden.predicted_us, 8 * main_loop_us + hidden.launch_us, microsecond_tolerance);
  plan.push_interval_ns = 16000;  // 67,584 bytes/us; rows arrive in the whole depth
  const PlanAudit late = audit_of(problem, plan, 2);
  EXPECT_NEAR(late.predicted_us, shard_bytes / 67584 + main_loop_us + late.launch_us, microsecond_tolerance);
  plan.chunk_depth = 1024;
  EXPECT_NEAR(audit_of(problem, plan, 2).predicted_us, shard_bytes / 67584 + main_loop_us / 8 + late.launch_us,
              microsecond_tolerance);
  plan.gather = GatherPath::copy_engine;
  EXPECT_EQ(audit_of(problem, plan, 2).remote_bytes, 0);
  EXPECT_EQ(audit_of(problem, plan, 2).tail_us, 0);
}

TEST(GemmAudit, WithoutPeersOnlyComputingCounts) {
  const Problem problem = problem_of(Operation::gemm, 4096, 4096, 4096);
  const Plan plan = make_plan(problem, 1, multiprocessors);
  const PlanAudit audit = audit_plan(problem, plan, 1, multiprocessors, Platform{}, tensor_tflops);
  EXPECT_EQ(audit.all_remote_bytes, 0);
  EXPECT_EQ(audit.all_drain_us, 0);
  EXPECT_DOUBLE_EQ(audit.predicted_us, audit.waves * audit.main_loop_us + audit.launch_us);
}

TEST(GemmAudit, RowsThatNoTileFillsAreNotCounted) {
  const Problem problem = problem_of(Operation::reduce_scatter, 1001, 1000, 1024);
  const PlanAudit audit = audit_of(problem, plan_for(problem, 2, 0), 2);
  EXPECT_DOUBLE_EQ(audit.all_remote_bytes, 500.0 * 1000 * 2);  // rank 0 owns 501
}

TEST(GemmAudit, SaysWhatItCannotUse) {
  const Problem problem = reduce_scatter(8192);
  const Plan plan = make_plan(problem, 2, multiprocessors);
  const auto message = [&](const Platform& platform, double tflops) -> std::string {
    try {
      static_cast<void>(audit_plan(problem, plan, 2, multiprocessors, platform, tflops));
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message(bulk_platform(), 0), HasSubstr("tensor_tflops is 0"));
  EXPECT_THAT(message(bulk_platform(), std::numeric_limits<double>::quiet_NaN()), HasSubstr("tensor_tflops is nan"));
  EXPECT_THAT(message(round_platform(), tensor_tflops), HasSubstr("store path bulk"));
  Platform no_drain = bulk_platform();
  no_drain.paths[0].drain_gb_per_s = unknown("too few samples");
  EXPECT_THAT(message(no_drain, tensor_tflops), HasSubstr("too few samples"));
}

}  // namespace
}  // namespace xstage::gemm::audit_test
