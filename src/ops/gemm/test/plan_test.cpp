// Plans of a GEMM: the rule gives a valid one for every shape, and a field that breaks a rule is named.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "ops/gemm/layout.hpp"
#include "xstage/error.hpp"
#include "xstage/gemm.hpp"

namespace xstage::gemm::plan_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int multiprocessors = 132;

Problem make_problem(Operation operation, std::int64_t m, std::int64_t n, std::int64_t k) {
  Problem problem;
  problem.operation = operation;
  problem.m = m;
  problem.n = n;
  problem.k = k;
  return problem;
}

Problem with_heads(std::int64_t m, int heads, int head_dim, std::int64_t k) {
  Problem problem = make_problem(Operation::all_to_all, m, std::int64_t{heads} * 3 * head_dim, k);
  problem.parts.assign(3, {heads, false, false});
  problem.head_dim = head_dim;
  return problem;
}

void expect_valid(const Problem& problem, const Plan& plan, int world) {
  const int cluster = plan.cluster_rows * plan.cluster_columns;
  EXPECT_TRUE(plan.tile_columns == 64 || plan.tile_columns == 128 || plan.tile_columns == 256) << plan.tile_columns;
  EXPECT_TRUE(cluster == 1 || cluster == 2) << cluster;
  EXPECT_GE(plan.stages, 2);
  EXPECT_LE(plan.stages, kernels::max_stages);
  EXPECT_LE(shared_layout(problem, plan, world).bytes, shared_memory_limit);
  EXPECT_GE(plan.issuers, cluster);
  EXPECT_LE(plan.issuers, multiprocessors);
  EXPECT_EQ(plan.issuers % cluster, 0);
  EXPECT_EQ(plan.chunk_depth % kernels::gemm_tile_depth, 0);
  EXPECT_GT(plan.chunk_depth, 0);
  if (problem.operation == Operation::all_to_all) {
    EXPECT_GE(plan.tile_columns, problem.head_dim);
  }
  if (problem.gated) {
    EXPECT_GE(plan.tile_columns, 128);
  }
  // What was completed once stays.
  const Plan again = complete_plan(problem, plan, world, multiprocessors);
  EXPECT_EQ(statement(problem, again), statement(problem, plan));
  EXPECT_EQ(again.stages, plan.stages);
}

TEST(GemmPlan, TheRuleGivesValidPlansForEveryShape) {
  std::mt19937 bits(11);
  for (int round = 0; round < 200; ++round) {
    for (const int world : {1, 2, 3, 4, 8}) {
      const auto up_to = [&bits](std::int64_t most) { return 1 + static_cast<std::int64_t>(bits()) % most; };
      const std::int64_t m = round % 4 == 0 ? up_to(world) : up_to(40000);
      const std::int64_t n = 16 * world * up_to(16384 / (16 * world));
      const std::int64_t k = 8 * world * up_to(16384 / (8 * world));
      for (const Operation operation :
           {Operation::gemm, Operation::reduce_scatter, Operation::all_gather, Operation::all_reduce}) {
        Problem problem = make_problem(operation, m, n, k);
        problem.gated = round % 3 == 0 && (operation == Operation::gemm || operation == Operation::all_gather);
        SCOPED_TRACE(statement(problem, {}) + " on " + std::to_string(world) + " ranks");
        expect_valid(problem, make_plan(problem, world, multiprocessors), world);
      }
      const Problem heads = with_heads(m, world * static_cast<int>(up_to(8)), round % 2 == 0 ? 64 : 128, k);
      SCOPED_TRACE(statement(heads, {}) + " on " + std::to_string(world) + " ranks");
      expect_valid(heads, make_plan(heads, world, multiprocessors), world);
    }
  }
}

TEST(GemmPlan, NoMoreCtasThanTiles) {
  Plan plan;
  plan.tile_columns = 256;
  plan.cluster_rows = 1;
  // Three tiles along the rows, two along the columns.
  EXPECT_EQ(complete_plan(make_problem(Operation::gemm, 300, 512, 64), plan, 1, multiprocessors).issuers, 6);
  plan.cluster_rows = 2;
  EXPECT_EQ(complete_plan(make_problem(Operation::gemm, 300, 512, 64), plan, 1, multiprocessors).issuers, 8);
  EXPECT_EQ(complete_plan(make_problem(Operation::gemm, 30000, 5120, 64), plan, 1, multiprocessors).issuers, 132);
  EXPECT_EQ(complete_plan(make_problem(Operation::gemm, 30000, 5120, 64), plan, 1, 131).issuers, 130);
}

TEST(GemmPlan, ChunksAreNoDeeperThanTheOperand) {
  const Problem problem = make_problem(Operation::all_gather, 300, 512, 200);
  Plan plan;
  EXPECT_EQ(complete_plan(problem, plan, 2, multiprocessors).chunk_depth, 256);  // 0: the whole depth
  plan.chunk_depth = 512;
  EXPECT_EQ(complete_plan(problem, plan, 2, multiprocessors).chunk_depth, 256);
  plan.chunk_depth = 64;
  EXPECT_EQ(complete_plan(problem, plan, 2, multiprocessors).chunk_depth, 64);
}

TEST(GemmPlan, FieldsLeftToTheRuleAreFilledIn) {
  for (const int tile_columns : {64, 128, 256}) {
    Plan plan;
    plan.tile_columns = tile_columns;
    const Plan alone = complete_plan(make_problem(Operation::gemm, 300, 512, 64), plan, 1, multiprocessors);
    EXPECT_EQ(alone.staging_chunks, tile_columns / 64);  // a whole tile
    EXPECT_EQ(alone.store_interval_ns, 0);
    EXPECT_EQ(alone.push_interval_ns, 0);
    const Plan fused = complete_plan(make_problem(Operation::all_gather, 300, 1024, 64), plan, 2, multiprocessors);
    EXPECT_GT(fused.store_interval_ns, 0);
    EXPECT_GT(fused.push_interval_ns, 0);
  }
}

TEST(GemmPlan, FewRowsAreReducedInOneShot) {
  EXPECT_EQ(make_plan(make_problem(Operation::all_reduce, 16, 8192, 8192), 2, multiprocessors).all_reduce,
            AllReduceAlgorithm::one_shot);
  EXPECT_EQ(make_plan(make_problem(Operation::all_reduce, 8192, 8192, 8192), 2, multiprocessors).all_reduce,
            AllReduceAlgorithm::two_shot);
}

Platform platform_that_drains(std::optional<double> gb_per_s) {
  Platform platform;
  PathProfile bulk;
  bulk.path = StorePath::bulk;
  bulk.drain_gb_per_s.value = gb_per_s;
  platform.paths.push_back(bulk);
  return platform;
}

/// Several waves: groups of 4 KiB of 2 x 132 store warps keep to 0.72 of the drain rate, 2 * 4096 * 132 / (0.72 * R)
/// ns.
TEST(GemmPlan, StoresKeepBelowThePlatformsDrainRate) {
  const Problem problem = make_problem(Operation::reduce_scatter, 8192, 8192, 8192);
  EXPECT_EQ(make_plan(problem, 2, multiprocessors).store_interval_ns, 4022);                             // R = 373.4
  EXPECT_EQ(make_plan(problem, 2, multiprocessors, platform_that_drains(750)).store_interval_ns, 2002);  // R = 750
  EXPECT_EQ(make_plan(problem, 1, multiprocessors).store_interval_ns, 0);
}

TEST(GemmPlan, APlatformWithoutADrainRateIsRefused) {
  const Problem problem = make_problem(Operation::reduce_scatter, 8192, 8192, 8192);
  EXPECT_THROW(static_cast<void>(make_plan(problem, 2, multiprocessors, platform_that_drains({}))), InputError);
}

TEST(GemmPlan, StagesTakeWhatSharedMemoryIsLeft) {
  const Problem problem = make_problem(Operation::all_gather, 4096, 4096, 4096);
  for (const int tile_columns : {64, 128, 256}) {
    for (int staging = 1; staging <= kernels::max_staging; ++staging) {
      for (const int world : {1, 2}) {
        Plan plan;
        plan.tile_columns = tile_columns;
        plan.staging_chunks = staging;
        plan = complete_plan(problem, plan, world, multiprocessors);
        EXPECT_LE(shared_layout(problem, plan, world).bytes, shared_memory_limit);
        ++plan.stages;
        EXPECT_TRUE(plan.stages > kernels::max_stages ||
                    shared_layout(problem, plan, world).bytes > shared_memory_limit);
      }
    }
  }
}

template <typename Change>
std::string refusal(const Problem& problem, int world, Change&& change) {
  Plan plan;
  change(plan);
  try {
    static_cast<void>(complete_plan(problem, plan, world, multiprocessors));
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(GemmPlan, StagingLiesOverTheRingWhereACtaHasOneTile) {
  const auto over_ring = [](Operation operation, std::int64_t m, int world) {
    return make_plan(make_problem(operation, m, 4096, 4096), world, multiprocessors).staging_over_ring;
  };
  EXPECT_EQ(over_ring(Operation::gemm, 1024, 1), 1);
  EXPECT_EQ(over_ring(Operation::gemm, 4096, 1), 0);  // several tiles
  EXPECT_EQ(over_ring(Operation::all_gather, 2048, 2), 1);
  EXPECT_EQ(over_ring(Operation::all_reduce, 64, 2), 1);      // partial sums of peers come after the own ones
  EXPECT_EQ(over_ring(Operation::reduce_scatter, 64, 2), 0);  // and here they may come before
}

TEST(GemmPlan, StagingOverTheRingIsRefusedWhereItCannotBe) {
  const auto ask = [](Plan& plan) { plan.staging_over_ring = 1; };
  EXPECT_THAT(refusal(make_problem(Operation::gemm, 4096, 4096, 4096), 1, ask),
              HasSubstr("staging_over_ring is 1: it must be 0 or -1 where a CTA has several tiles"));
  EXPECT_THAT(refusal(make_problem(Operation::reduce_scatter, 64, 4096, 4096), 2, ask),
              HasSubstr("staging_over_ring is 1"));
}

/// Fewer CTAs than planned, as virtual ranks have: everything has a place of its own again.
TEST(GemmPlan, WithOwnStagingNothingOverlaps) {
  const Problem problem = make_problem(Operation::all_gather, 1024, 4096, 4096);
  const Plan planned = make_plan(problem, 2, multiprocessors);
  ASSERT_EQ(planned.staging_over_ring, 1);
  const Plan plan = with_own_staging(problem, planned, 2);
  const SharedLayout layout = shared_layout(problem, plan, 2);
  EXPECT_GE(plan.stages, 2);
  EXPECT_GE(layout.staging_offset, plan.stages * layout.stage_bytes);
  EXPECT_GE(layout.push_offset, layout.staging_offset + std::int64_t{2} * plan.staging_chunks * kernels::chunk_bytes);
  EXPECT_GE(layout.barriers_offset, layout.push_offset + kernels::push_bytes);
  EXPECT_LE(layout.bytes, shared_memory_limit);
}

TEST(GemmPlan, FewRowsHaveSmallStagesAndMoreOfThem) {
  const auto problem_of = [](std::int64_t m) { return make_problem(Operation::gemm, m, 8192, 4096); };
  const Plan few = make_plan(problem_of(13), 1, multiprocessors);
  const Plan more = make_plan(problem_of(65), 1, multiprocessors);
  const SharedLayout layout = shared_layout(problem_of(13), few, 1);
  EXPECT_EQ(multiplying_warpgroups(problem_of(13), 1), 1);
  EXPECT_EQ(multiplying_warpgroups(problem_of(65), 1), 2);
  EXPECT_EQ(layout.a_block_bytes, 16 * 128);  // 13 rows in whole groups of 8: what the swizzle repeats after
  EXPECT_EQ(layout.b_offset, few.stage_blocks * layout.a_block_bytes);
  EXPECT_EQ(layout.stage_bytes % 1024, 0);  // stages are aligned for it, too
  // One WGMMA reads 64 rows of A: of the last k-block, too, within the stage.
  EXPECT_LE((few.stage_blocks - 1) * layout.a_block_bytes + 64 * 128, layout.stage_bytes);
  EXPECT_GT(few.stages * few.stage_blocks, more.stages * more.stage_blocks);
}

TEST(GemmPlan, NarrowTilesLoadTwoBlocksAtOnce) {
  const auto blocks = [](Operation operation, std::int64_t m, std::int64_t n, std::int64_t k) {
    return make_plan(make_problem(operation, m, n, k), 2, multiprocessors).stage_blocks;
  };
  EXPECT_EQ(blocks(Operation::all_reduce, 16, 8192, 8192), 2);
  EXPECT_EQ(blocks(Operation::all_reduce, 16, 8192, 8192 + 64 * 2), 1);  // 4160 on each rank: 65 blocks of 64
  EXPECT_EQ(blocks(Operation::all_reduce, 256, 8192, 8192), 1);          // tiles of 128 columns
  EXPECT_EQ(blocks(Operation::all_gather, 64, 8192, 8192), 1);           // rows may arrive block by block
  for (const int refused : {-1, 3}) {
    EXPECT_THAT(refusal(make_problem(Operation::gemm, 64, 4096, 4096), 1,
                        [refused](Plan& plan) { plan.stage_blocks = refused; }),
                HasSubstr("stage_blocks is " + std::to_string(refused) + ": it must be 1 or 2, or 0 for the rule"));
  }
}

/// 48 KiB a stage with two blocks, 24 with one.
TEST(GemmPlan, StagesThatWereAskedForDecideHowManyBlocksTheyHold) {
  const Problem problem = make_problem(Operation::gemm, 1024, 1024, 1024);
  Plan plan;
  plan.tile_columns = 64;
  plan.cluster_rows = 1;
  const auto with_stages = [&](int stages) {
    plan.stages = stages;
    return complete_plan(problem, plan, 1, multiprocessors);
  };
  const int most = with_stages(0).stages;
  EXPECT_EQ(most, 4);
  EXPECT_EQ(with_stages(0).stage_blocks, 2);
  for (int stages = 2; stages <= 9; ++stages) {
    const Plan complete = with_stages(stages);
    EXPECT_EQ(complete.stage_blocks, stages <= most ? 2 : 1) << stages;
    EXPECT_EQ(complete.stages, stages);
    EXPECT_LE(shared_layout(problem, complete, 1).bytes, shared_memory_limit);
  }
  plan.stage_blocks = 2;  // asked for, too: it is for the caller to choose
  EXPECT_THROW(static_cast<void>(with_stages(most + 1)), InputError);
  plan.stage_blocks = 1;
  EXPECT_EQ(with_stages(2).stage_blocks, 1);
}

TEST(GemmPlan, EditsOfACompletePlanLeaveBlocksThatArePossible) {
  const Problem problem = make_problem(Operation::all_reduce, 16, 8192, 8192);
  const Plan narrow = make_plan(problem, 2, multiprocessors);
  ASSERT_EQ(narrow.stage_blocks, 2);
  const auto blocks_after = [&](auto change) {
    Plan plan = narrow;
    change(plan);
    return complete_plan(problem, plan, 2, multiprocessors).stage_blocks;
  };
  EXPECT_EQ(blocks_after([](Plan&) {}), 2);
  EXPECT_EQ(blocks_after([](Plan& plan) { plan.tile_columns = 128; }), 1);
  EXPECT_EQ(blocks_after([](Plan& plan) {
              plan.cluster_rows = 2;  // shares B
              plan.stages = 0;
              plan.issuers = 0;
              plan.staging_over_ring = -1;
            }),
            1);
  // The same plan for half a k-block more.
  EXPECT_EQ(
      complete_plan(make_problem(Operation::all_reduce, 16, 8192, 8192 + 64), narrow, 2, multiprocessors).stage_blocks,
      1);
}

TEST(GemmPlan, TwoWarpsPushWhereFewWavesWaitForRows) {
  const auto push_warps = [](std::int64_t m) {
    return make_plan(make_problem(Operation::all_gather, m, 8192, 8192), 2, multiprocessors).push_warps;
  };
  EXPECT_EQ(push_warps(1024), 2);
  EXPECT_EQ(push_warps(16384), 1);
  EXPECT_EQ(make_plan(make_problem(Operation::reduce_scatter, 1024, 8192, 8192), 2, multiprocessors).push_warps, 1);
  EXPECT_THAT(
      refusal(make_problem(Operation::all_gather, 4096, 4096, 4096), 2, [](Plan& plan) { plan.push_warps = 3; }),
      HasSubstr("push_warps is 3: it must be 1 or 2, or 0 for the rule"));
}

/// A push that ends long before its rows are needed only takes bandwidth from the loads.
TEST(GemmPlan, APushTakesTheTimeThatTheCallLeavesIt) {
  const auto push_us = [](std::int64_t m, std::int64_t k, int world) {
    const Problem problem = make_problem(Operation::all_gather, m, 8192 * world, k);
    const Plan plan = make_plan(problem, world, multiprocessors);
    const double pieces = static_cast<double>(row_range(m, 0, world).count * k) / (64.0 * 64);
    return std::pair{plan, pieces / (plan.issuers * plan.push_warps) * plan.push_interval_ns * 1e-3};
  };
  for (const int world : {2, 4}) {
    const auto [plan, us] = push_us(16384, 8192, world);
    const double call_us = 2.0 * 16384 * 8192 * 8192 / 800e6;  // at 800 TFLOP/s
    EXPECT_GT(us, 1.4 / world * call_us) << world << " ranks";
    EXPECT_LT(us, 1.8 / world * call_us) << world << " ranks";
  }
  // Few waves: two warps, that together ask for somewhat more than the drain rate.
  const auto [few, few_us] = push_us(512, 4096, 2);
  ASSERT_EQ(few.push_warps, 2);
  EXPECT_NEAR(256.0 * 4096 * 2 / (few_us * 1e3), 1.15 * few.drain_gb_per_s, 1);
}

/// The second push warp stores results later, so it pushes only where staging holds a whole tile until then.
TEST(GemmPlan, AWarpThatStoresPushesOnlyWhereNoResultWaitsForIt) {
  const Problem problem = make_problem(Operation::all_gather, 8192, 8192, 8192);
  const Plan planned = make_plan(problem, 8, multiprocessors);
  ASSERT_EQ(planned.staging_chunks, 1);
  EXPECT_EQ(planned.push_warps, 1);
  const auto push_warps = [&](int staging_chunks, int asked_for) {
    Plan plan = planned;
    plan.staging_chunks = staging_chunks;
    plan.stages = 0;
    plan.push_warps = asked_for;
    return complete_plan(problem, plan, 8, multiprocessors).push_warps;
  };
  EXPECT_EQ(push_warps(3, 0), 1);
  EXPECT_EQ(push_warps(4, 0), 2);
  EXPECT_EQ(push_warps(1, 2), 2);
}

TEST(GemmPlan, AFieldThatBreaksARuleIsNamed) {
  const Problem problem = make_problem(Operation::gemm, 4096, 4096, 4096);
  const auto refused = [&](auto change) { return refusal(problem, 1, change); };
  EXPECT_THAT(refused([](Plan& plan) { plan.tile_columns = 96; }),
              HasSubstr("tile_columns is 96: it must be 64, 128 or 256"));
  EXPECT_THAT(refused([](Plan& plan) { plan.staging_chunks = -1; }),
              HasSubstr("staging_chunks is -1: it must be between 1 and 4, or 0 for the rule"));
  EXPECT_THAT(refused([](Plan& plan) { plan.staging_chunks = 5; }), HasSubstr("staging_chunks is 5"));
  EXPECT_THAT(refused([](Plan& plan) { plan.cluster_columns = 2; }),
              AllOf(HasSubstr("cluster_rows x cluster_columns is 4"), HasSubstr("one or two CTAs")));
  EXPECT_THAT(refused([](Plan& plan) { plan.cluster_rows = 0; }), HasSubstr("cluster_rows is 0: it must be 1 or 2"));
  EXPECT_THAT(refused([](Plan& plan) { plan.group_rows = 0; }),
              HasSubstr("group_rows is 0: it must be between 1 and 65536"));
  EXPECT_THAT(refused([](Plan& plan) { plan.issuers = 7; }), HasSubstr("issuers is 7: it must be a multiple of"));
  EXPECT_THAT(refused([](Plan& plan) { plan.issuers = -2; }),
              HasSubstr("issuers is -2: it must be between 1 and 512, or 0 for the rule"));
  EXPECT_THAT(refused([](Plan& plan) { plan.stages = 1; }), HasSubstr("stages is 1: it must be between 2 and 20"));
  EXPECT_THAT(refused([](Plan& plan) { plan.stages = 21; }), HasSubstr("stages is 21"));
  EXPECT_THAT(refused([](Plan& plan) { plan.chunk_rows = 192; }),
              HasSubstr("chunk_rows is 192: it must be a multiple of 128"));
  EXPECT_THAT(refused([](Plan& plan) { plan.chunk_depth = 96; }),
              HasSubstr("chunk_depth is 96: it must be a multiple of 64"));
  EXPECT_THAT(refused([](Plan& plan) { plan.chunk_depth = -64; }), HasSubstr("chunk_depth is -64"));
}

TEST(GemmPlan, StoreFieldsThatBreakARuleAreNamed) {
  const Problem problem = make_problem(Operation::gemm, 4096, 4096, 4096);
  const auto refused = [&](auto change) { return refusal(problem, 1, change); };
  for (const int window : {-1, 3, 5}) {
    EXPECT_THAT(refused([window](Plan& plan) { plan.window = window; }),
                HasSubstr("window is " + std::to_string(window)));
  }
  for (const int rows : {0, 8, 24, 128}) {
    EXPECT_THAT(refused([rows](Plan& plan) { plan.store_rows = rows; }),
                HasSubstr("store_rows is " + std::to_string(rows)));
  }
}

/// CTAs beyond those that are resident together would wait for each other, and have no epoch in the signal pad.
TEST(GemmPlan, NoMoreCtasThanMultiprocessors) {
  const Problem problem = make_problem(Operation::reduce_scatter, 4096, 4096, 4096);
  EXPECT_EQ(refusal(problem, 2, [](Plan& plan) { plan.issuers = multiprocessors; }), "");
  EXPECT_THAT(refusal(problem, 2, [](Plan& plan) { plan.issuers = multiprocessors + 2; }), HasSubstr("issuers is 134"));
  EXPECT_THAT(refusal(problem, 2, [](Plan& plan) { plan.issuers = 514; }), HasSubstr("issuers is 514"));
}

TEST(GemmPlan, TilesHoldWholeHeadsAndPairsOfGates) {
  EXPECT_THAT(refusal(with_heads(256, 2, 128, 256), 2, [](Plan& plan) { plan.tile_columns = 64; }),
              AllOf(HasSubstr("tile_columns is 64"), HasSubstr("whole heads")));
  EXPECT_EQ(refusal(with_heads(256, 2, 64, 256), 2, [](Plan& plan) { plan.tile_columns = 64; }), "");
  Problem gated = make_problem(Operation::gemm, 256, 512, 256);
  gated.gated = true;
  EXPECT_THAT(refusal(gated, 1, [](Plan& plan) { plan.tile_columns = 64; }),
              AllOf(HasSubstr("tile_columns is 64"), HasSubstr("gated")));
}

TEST(GemmPlan, RingsThatDoNotFitNameTheirBytesAndTheLimit) {
  const Problem problem = make_problem(Operation::gemm, 4096, 4096, 4096);
  EXPECT_THAT(refusal(problem, 1, [](Plan& plan) { plan.stages = 6; }),
              AllOf(HasSubstr("6 stages and 4 staging chunks take"), HasSubstr("at most 232448")));
}

}  // namespace
}  // namespace xstage::gemm::plan_test
