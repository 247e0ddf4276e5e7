// Fused GEMMs with injected delays: results have the same bits, whichever role is late.

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gpu/delay_support.hpp"
#include "ops/gemm/test/gpu/reference.hpp"
#include "ops/gemm/test/gpu/support.hpp"
#include "xstage/gemm.hpp"

namespace xstage::delays_test {
namespace {

using gemm::Operation;
using gemm_test::Call;
using gemm_test::Case;
using gemm_test::FusedOperation;
using gemm_test::make_case;
using gemm_test::make_problem;
using gemm_test::problem_of;
using gemm_test::Ranks;
using gemm_test::virtual_ranks;

std::string name_of(const testing::TestParamInfo<FusedOperation>& info) { return info.param.name(); }

class GemmDelays : public testing::TestWithParam<FusedOperation> {};
INSTANTIATE_TEST_SUITE_P(All, GemmDelays, testing::ValuesIn(gemm_test::fused_operations), name_of);

/// Operations whose operands lie in local memory when the call begins: their stages may have two k-blocks.
class LocalGemmDelays : public testing::TestWithParam<FusedOperation> {};
INSTANTIATE_TEST_SUITE_P(All, LocalGemmDelays,
                         testing::Values(FusedOperation{Operation::reduce_scatter},
                                         FusedOperation{Operation::all_reduce, AllReduceAlgorithm::two_shot},
                                         FusedOperation{Operation::all_reduce, AllReduceAlgorithm::one_shot},
                                         FusedOperation{Operation::all_to_all}),
                         name_of);

std::vector<std::uint16_t> all_results(const Case& which, const Call& call) {
  std::vector<std::uint16_t> all;
  for (int rank = 0; rank < which.cell.ranks; ++rank) {
    for (std::size_t part = 0; part < gemm_test::result_shapes(which.cell, rank).size(); ++part) {
      const std::vector<std::uint16_t> values = call.read_result(rank, part);
      all.insert(all.end(), values.begin(), values.end());
    }
  }
  return all;
}

void expect_right_in_spite_of_delays(const Case& which, const std::vector<int>& devices) {
  SCOPED_TRACE(which.text());
  Ranks ranks(which, devices);
  gpu_test::expect_right_in_spite_of_delays(which, ranks, all_results);
}

/// Few CTAs, short rings.
Plan plan_for_delays() {
  Plan plan;
  plan.tile_columns = 128;
  plan.cluster_rows = 1;
  plan.issuers = 4;
  plan.stages = 3;
  plan.staging_chunks = 2;
  plan.group_rows = 2;
  plan.chunk_depth = 64;
  return plan;
}

Case case_for_delays(const FusedOperation& fused, int world, int cluster_rows, int cluster_columns) {
  Plan plan = plan_for_delays();
  plan.cluster_rows = cluster_rows;
  plan.cluster_columns = cluster_columns;
  plan.all_reduce = fused.all_reduce;
  // An odd number of tiles along the columns: of the last cluster one CTA has nothing to store.
  const auto problem = problem_of(fused, 390, 264 * world, fused.operation == Operation::all_to_all ? 136 : 256, world);
  return make_case(problem, world, plan);
}

TEST_P(GemmDelays, BetweenVirtualRanks) {
  SKIP_WITHOUT_HOPPER(1);
  expect_right_in_spite_of_delays(case_for_delays(GetParam(), 4, 2, 1), virtual_ranks(4));
  expect_right_in_spite_of_delays(case_for_delays(GetParam(), 4, 1, 2), virtual_ranks(4));
}

TEST_P(GemmDelays, BetweenTwoGpus) {
  SKIP_WITHOUT_HOPPER(2);
  expect_right_in_spite_of_delays(case_for_delays(GetParam(), 2, 2, 1), {0, 1});
  expect_right_in_spite_of_delays(case_for_delays(GetParam(), 2, 1, 2), {0, 1});
}

// ---- stages of two k-blocks

/// Three stages to a tile, in a ring of two or three.
Case case_of_two_blocks(const FusedOperation& fused, int world, int cluster_columns, int stages) {
  Plan plan = plan_for_delays();
  plan.tile_columns = 64;
  plan.cluster_columns = cluster_columns;
  plan.stage_blocks = 2;
  plan.stages = stages;
  plan.all_reduce = fused.all_reduce;
  const int depth = fused.operation == Operation::all_to_all ? 384 : 384 * world;
  return make_case(problem_of(fused, 390, 136 * world, depth, world, 64), world, plan);
}

TEST_P(LocalGemmDelays, WithStagesOfTwoBlocksOnVirtualRanks) {
  SKIP_WITHOUT_HOPPER(1);
  for (const auto& [cluster_columns, stages] : {std::pair{1, 3}, std::pair{2, 2}}) {
    const Case which = case_of_two_blocks(GetParam(), 4, cluster_columns, stages);
    ASSERT_EQ(which.plan.stage_blocks, 2);
    expect_right_in_spite_of_delays(which, virtual_ranks(4));
  }
}

TEST_P(LocalGemmDelays, WithStagesOfTwoBlocksOnTwoGpus) {
  SKIP_WITHOUT_HOPPER(2);
  for (const auto& [cluster_columns, stages] : {std::pair{1, 3}, std::pair{2, 2}}) {
    const Case which = case_of_two_blocks(GetParam(), 2, cluster_columns, stages);
    ASSERT_EQ(which.plan.stage_blocks, 2);
    expect_right_in_spite_of_delays(which, {0, 1});
  }
}

// ---- two push warps

/// Each push warp has several pieces, and one of them has results to store when it is late with them; staging holds a
/// whole tile or half of one.
Case case_of_two_push_warps(int world, int staging_chunks) {
  Plan plan = plan_for_delays();
  plan.push_warps = 2;
  plan.staging_chunks = staging_chunks;
  return make_case(make_problem(Operation::all_gather, 200 * world, 264 * world, 640), world, plan);
}

TEST(AllGatherGemmDelays, WithTwoPushWarpsOnVirtualRanks) {
  SKIP_WITHOUT_HOPPER(1);
  for (const int staging_chunks : {1, 2}) {
    const Case which = case_of_two_push_warps(4, staging_chunks);
    ASSERT_EQ(which.plan.push_warps, 2);
    expect_right_in_spite_of_delays(which, virtual_ranks(4));
  }
}

TEST(AllGatherGemmDelays, WithTwoPushWarpsOnTwoGpus) {
  SKIP_WITHOUT_HOPPER(2);
  for (const int staging_chunks : {1, 2}) {
    const Case which = case_of_two_push_warps(2, staging_chunks);
    ASSERT_EQ(which.plan.push_warps, 2);
    expect_right_in_spite_of_delays(which, {0, 1});
  }
}

}  // namespace
}  // namespace xstage::delays_test
