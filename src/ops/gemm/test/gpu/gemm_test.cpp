// Results of all fused GEMMs on real GPUs: virtual ranks of one GPU, and two GPUs where they are present.

#include "xstage/gemm.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gpu/call_support.hpp"
#include "gpu/graph_support.hpp"
#include "ops/gemm/layout.hpp"
#include "ops/gemm/test/gpu/reference.hpp"
#include "ops/gemm/test/gpu/support.hpp"
#include "xstage/error.hpp"

namespace xstage::gemm_test {
namespace {

using gemm::Activation;
using gemm::Operation;
using gemm_test::Call;
using gemm_test::Case;
using gemm_test::complaint_about;
using gemm_test::FusedOperation;
using gemm_test::make_case;
using gemm_test::make_heads;
using gemm_test::make_problem;
using gemm_test::plan_allowed;
using gemm_test::problem_of;
using gemm_test::Random;
using gemm_test::Ranks;
using gemm_test::virtual_ranks;
using gpu_test::expect_right_calls;
using gpu_test::replay_three_launches;

/// Enqueues several calls with different operands back to back, then verifies all of them.
void expect_right(const Case& which, const std::vector<int>& devices, int calls, std::uint64_t seed) {
  SCOPED_TRACE(which.text());
  Ranks ranks(which, devices);
  std::vector<Call> all;
  for (int call = 0; call < calls; ++call) {
    all.emplace_back(which, devices, seed + static_cast<std::uint64_t>(call));
  }
  expect_right_calls(which, ranks, all);
}

std::string name_of(const testing::TestParamInfo<FusedOperation>& info) { return info.param.name(); }

class GemmOperation : public testing::TestWithParam<FusedOperation> {};
class FusedGemm : public testing::TestWithParam<FusedOperation> {};

INSTANTIATE_TEST_SUITE_P(Local, GemmOperation, testing::Values(FusedOperation{}), name_of);
INSTANTIATE_TEST_SUITE_P(Fused, GemmOperation, testing::ValuesIn(gemm_test::fused_operations), name_of);
INSTANTIATE_TEST_SUITE_P(All, FusedGemm, testing::ValuesIn(gemm_test::fused_operations), name_of);

// ---- random shapes and plans
// -----------------------------------------------------------------------------------------

TEST_P(GemmOperation, RandomShapesOnVirtualRanks) {
  SKIP_WITHOUT_HOPPER(1);
  Random random(100 + static_cast<std::uint64_t>(GetParam().operation));
  for (int world = 1; world <= max_world; ++world) {
    for (int repetition = 0; repetition < 3; ++repetition) {
      const int ranks = GetParam().operation == Operation::gemm ? 1 : world;
      expect_right(gemm_test::random_case(GetParam(), ranks, random), virtual_ranks(ranks), 3,
                   static_cast<std::uint64_t>(world * 10 + repetition));
    }
  }
}

TEST_P(FusedGemm, RandomShapesOnTwoGpus) {
  SKIP_WITHOUT_HOPPER(2);
  Random random(200 + static_cast<std::uint64_t>(GetParam().operation));
  for (std::uint64_t repetition = 0; repetition < 15; ++repetition) {
    expect_right(gemm_test::random_case(GetParam(), 2, random), {0, 1}, 4, repetition);
  }
}

/// The rule's plan on a shape that fills the GPU several times over.
TEST_P(GemmOperation, ManyTiles) {
  SKIP_WITHOUT_HOPPER(1);
  const bool fused = GetParam().operation != Operation::gemm;
  const int world = fused ? 2 : 1;
  const auto problem = problem_of(GetParam(), 3000, 4624, 640, 12, 128);
  expect_right(make_case(problem, world, GetParam().all_reduce), virtual_ranks(world), 2, 1);
  if (fused && gemm_test::unavailable_reason(2).empty()) {
    expect_right(make_case(problem, 2, GetParam().all_reduce), {0, 1}, 4, 2);
  }
}

// ---- shapes at the edges
// ---------------------------------------------------------------------------------------------

TEST_P(FusedGemm, RanksWithoutRows) {
  SKIP_WITHOUT_HOPPER(1);
  for (const std::int64_t m : {1, 3, 5}) {  // of 4 ranks three, one and one have none
    const auto problem = problem_of(GetParam(), m, 160, 288, 4, 64);
    expect_right(make_case(problem, 4, GetParam().all_reduce), virtual_ranks(4), 3, static_cast<std::uint64_t>(m));
  }
  if (GetParam().operation == Operation::all_reduce) {  // two units of 8 columns for four ranks
    const auto problem = make_problem(Operation::all_reduce, 137, 16, 288);
    expect_right(make_case(problem, 4, GetParam().all_reduce), virtual_ranks(4), 3, 8);
  }
  if (gemm_test::unavailable_reason(2).empty()) {
    const auto problem = problem_of(GetParam(), 1, 160, 288, 4, 128);
    expect_right(make_case(problem, 2, GetParam().all_reduce), {0, 1}, 3, 9);
  }
}

/// The cooperative kernel with a world of one, which waits for no peer.
TEST_P(GemmOperation, ACommonLaunchOfOneRank) {
  SKIP_WITHOUT_HOPPER(1);
  const auto problem = problem_of(GetParam(), 150, 144, 72, 2, 128);
  const Case which = make_case(problem, 1, GetParam().all_reduce);
  Ranks ranks(which, {0});
  const Call call(which, {0}, 1);
  const std::vector<Gemm*> handles = ranks.handles();
  const std::vector<gemm::Operands> operands{call.operands(0)};
  Gemm::launch_together(handles, operands, ranks.stream(0));
  ranks.collect(call, 0);
  ranks.finish();
  EXPECT_EQ(complaint_about(which, call), "");
}

/// Tiles of one k-block: the loader is several tiles ahead of those that multiply.
TEST_P(GemmOperation, ShortDepthAndFewCtas) {
  SKIP_WITHOUT_HOPPER(1);
  const int world = GetParam().operation == Operation::gemm ? 1 : 2;
  const auto problem = problem_of(GetParam(), 900, 1296, 8 * world, 4, 64);
  for (const int tile_columns : {64, 128, 256}) {
    Plan plan;
    plan.tile_columns = tile_columns;
    plan.issuers = 2;
    plan.all_reduce = GetParam().all_reduce;
    if (!plan_allowed(problem, plan)) {
      continue;
    }
    expect_right(make_case(problem, world, plan), virtual_ranks(world), 2, 3);
  }
}

/// Stages of two k-blocks: rows of one warpgroup or two, A shared or not, one tile a CTA or several.
TEST_P(GemmOperation, StagesOfTwoBlocks) {
  SKIP_WITHOUT_HOPPER(1);
  const int world = GetParam().operation == Operation::gemm ? 1 : 2;
  std::uint64_t seed = 70;
  for (const std::int64_t m : {5, 72, 300}) {
    for (const auto& [cluster_columns, issuers] : {std::pair{1, 0}, std::pair{2, 0}, std::pair{2, 4}}) {
      Plan plan;
      plan.tile_columns = 64;
      plan.cluster_rows = 1;
      plan.cluster_columns = cluster_columns;
      plan.issuers = issuers;
      plan.all_reduce = GetParam().all_reduce;
      const auto problem = problem_of(GetParam(), m, 200 * world, 384 * world, 4, 64);
      const Case which = make_case(problem, world, plan);
      ASSERT_EQ(which.plan.stage_blocks, GetParam().operation == Operation::all_gather ? 1 : 2);
      expect_right(which, virtual_ranks(world), 3, ++seed);
    }
  }
}

/// The last cluster has a CTA whose columns lie outside; it still loads its half of the rows that both share.
TEST(AllGatherGemm, ClustersAlongTheColumnsWithAnOddNumberOfTiles) {
  SKIP_WITHOUT_HOPPER(1);
  Plan plan;
  plan.tile_columns = 64;
  plan.cluster_rows = 1;
  plan.cluster_columns = 2;
  plan.chunk_depth = 64;
  plan.issuers = 4;
  const Case which = make_case(make_problem(Operation::all_gather, 400, 2 * 192, 640), 2, plan);
  expect_right(which, virtual_ranks(2), 6, 1);
  if (gemm_test::unavailable_reason(2).empty()) {
    expect_right(which, {0, 1}, 10, 2);
  }
}

/// The least alignment that the interface allows: addresses on 16 bytes, rows of an odd number of 16 bytes.
TEST(Gemm, OperandsOnSixteenBytes) {
  SKIP_WITHOUT_HOPPER(1);
  const Case which = make_case(make_problem(Operation::gemm, 200, 136, 72), 1);
  Ranks ranks(which, {0});
  const Call call(which, {0}, 1);
  gemm::Operands operands = call.operands(0);
  const std::size_t bytes_a = call.host(0).a.size() * 2;
  const std::size_t bytes_b = call.host(0).b.size() * 2;
  const cuda::DeviceBuffer copy(0, bytes_a + bytes_b + 64, "shifted operands");
  char* a = copy.as<char>() + 16;
  char* b = a + bytes_a + 16;
  ASSERT_EQ(reinterpret_cast<std::uintptr_t>(b) % 16, 0U);
  ASSERT_EQ(cudaMemcpy(a, operands.a, bytes_a, cudaMemcpyDeviceToDevice), cudaSuccess);
  ASSERT_EQ(cudaMemcpy(b, operands.b, bytes_b, cudaMemcpyDeviceToDevice), cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  operands.a = a;
  operands.b = b;
  ranks[0].launch(operands, ranks.stream(0));
  ranks.finish();
  EXPECT_EQ(complaint_about(which, call), "");
}

// ---- epilogues
// -------------------------------------------------------------------------------------------------------

TEST_P(GemmOperation, BiasAndActivations) {
  SKIP_WITHOUT_HOPPER(1);
  const int world = GetParam().operation == Operation::gemm ? 1 : 3;
  std::uint64_t seed = 0;
  for (const Activation activation : {Activation::none, Activation::gelu, Activation::gelu_tanh, Activation::silu}) {
    for (const int tile_columns : {128, 256}) {
      auto problem = problem_of(GetParam(), 301, 312, 264, 3, 128);
      problem.bias = true;
      problem.activation = activation;
      Plan plan;
      plan.tile_columns = tile_columns;
      plan.all_reduce = GetParam().all_reduce;
      if (plan_allowed(problem, plan)) {
        expect_right(make_case(problem, world, plan), virtual_ranks(world), 2, ++seed);
      }
    }
  }
}

/// As PyTorch's activations do; the bias makes every sum infinite.
TEST(Gemm, InfinityPassesThroughActivations) {
  SKIP_WITHOUT_HOPPER(1);
  constexpr std::uint16_t infinity = 0x7F80;
  constexpr std::int64_t rows = 70;
  constexpr std::int64_t columns = 72;
  constexpr std::int64_t depth = 80;
  const auto of_device = [](std::int64_t elements, std::uint16_t value) {
    const std::vector<std::uint16_t> host(static_cast<std::size_t>(elements), value);
    cuda::DeviceBuffer buffer(0, host.size() * sizeof(value), "a test");
    cuda::check(cudaMemcpy(buffer.as<void>(), host.data(), buffer.bytes(), cudaMemcpyHostToDevice), "a test");
    return buffer;
  };
  const cuda::DeviceBuffer a = of_device(rows * depth, 0x3FC0);     // 1.5
  const cuda::DeviceBuffer b = of_device(columns * depth, 0xBF80);  // -1
  const cuda::DeviceBuffer bias = of_device(columns, infinity);
  for (const Activation activation : {Activation::gelu, Activation::gelu_tanh, Activation::silu}) {
    auto problem = make_problem(Operation::gemm, rows, columns, depth);
    problem.bias = true;
    problem.activation = activation;
    const Case which = make_case(problem, 1, Plan{});
    auto heap = PeerAccessHeap::create({0}, gemm::heap_bytes(problem, which.plan, 1));
    Gemm gemm(heap.rank(0), problem, which.plan);
    const cuda::DeviceBuffer output = of_device(rows * columns, 0xFFFF);
    gemm.launch({a.as<void>(), b.as<void>(), output.as<void>(), bias.as<void>()}, nullptr);
    std::vector<std::uint16_t> results(rows * columns);
    cuda::check(cudaMemcpy(results.data(), output.as<void>(), output.bytes(), cudaMemcpyDeviceToHost), "a test");
    EXPECT_THAT(results, testing::Each(infinity));
    gemm.check();
  }
}

TEST(Gemm, GatesAndUpProjections) {
  SKIP_WITHOUT_HOPPER(1);
  std::uint64_t seed = 0;
  for (const auto& [operation, world] : {std::pair{Operation::gemm, 1}, std::pair{Operation::all_gather, 4}}) {
    for (const Activation activation : {Activation::silu, Activation::gelu, Activation::gelu_tanh, Activation::none}) {
      for (const int tile_columns : {128, 256}) {
        auto problem = make_problem(operation, 333, 16 * world * 23, 136);
        problem.gated = true;
        problem.activation = activation;
        problem.bias = seed % 2 == 0;
        Plan plan;
        plan.tile_columns = tile_columns;
        plan.staging_chunks = tile_columns == 128 ? 1 : 4;
        expect_right(make_case(problem, world, plan), virtual_ranks(world), 2, ++seed);
      }
    }
  }
}

/// Rotary positions are those of the whole sequence, so each rank begins elsewhere.
TEST(GemmAllToAll, NormAndRotaryEmbeddingOfEachHead) {
  SKIP_WITHOUT_HOPPER(1);
  std::uint64_t seed = 0;
  for (const int head_dim : {64, 128}) {
    for (const int world : {1, 2, 3}) {
      for (const int tile_columns : {64, 128, 256}) {
        if (tile_columns < head_dim) {
          continue;
        }
        Plan plan;
        plan.tile_columns = tile_columns;
        auto problem = make_heads(407, 3 * world, head_dim, 136);
        problem.bias = world == 2;
        expect_right(make_case(problem, world, plan), virtual_ranks(world), 2, ++seed);
        problem.parts = {{world, true, false}, {4 * world, false, true}, {2 * world, true, true}};  // fewer heads of Q
        problem.n = std::int64_t{7} * world * head_dim;
        expect_right(make_case(problem, world, plan), virtual_ranks(world), 2, ++seed);
      }
    }
  }
  if (gemm_test::unavailable_reason(2).empty()) {
    expect_right(make_case(make_heads(1001, 4, 128, 200), 2), {0, 1}, 3, 77);
  }
}

// ---- CUDA graphs
// -----------------------------------------------------------------------------------------------------

/// Results that lie in the heap are those of the last launch.
void expect_right_replays(const Case& which, const std::vector<int>& devices) {
  SCOPED_TRACE(which.text());
  Ranks ranks(which, devices);
  const bool in_heap =
      which.cell.problem.operation == Operation::all_reduce || which.cell.problem.operation == Operation::all_to_all;
  replay_three_launches<Call>(which, ranks, 0, [&](const std::vector<Call>& calls, int) {
    for (std::size_t launch = in_heap ? calls.size() - 1 : 0; launch < calls.size(); ++launch) {
      EXPECT_EQ(complaint_about(which, calls[launch]), "") << "launch " << launch;
    }
  });
  EXPECT_TRUE(ranks.guards_are_untouched());
}

TEST(Gemm, ReplaysOfAGraph) {
  SKIP_WITHOUT_HOPPER(1);
  expect_right_replays(make_case(make_problem(Operation::gemm, 500, 520, 264), 1), {0});
}

TEST_P(FusedGemm, ReplaysOfAGraphOnTwoGpus) {
  SKIP_WITHOUT_HOPPER(2);
  const auto problem = problem_of(GetParam(), 501, 1040, 272, 4, 128);
  expect_right_replays(make_case(problem, 2, GetParam().all_reduce), {0, 1});
}

// ---- all-gather by copy engine: a gate, copies and their flags on a second stream

Case copy_engine_case(std::int64_t m, std::int64_t k, int chunk_rows, int chunk_depth) {
  Plan plan;
  plan.tile_columns = 128;
  plan.gather = GatherPath::copy_engine;
  plan.chunk_rows = chunk_rows;
  plan.chunk_depth = chunk_depth;
  return make_case(make_problem(Operation::all_gather, m, 2 * 264, k), 2, plan);
}

TEST(AllGatherGemm, ByCopyEngineOnTwoGpus) {
  SKIP_WITHOUT_HOPPER(2);
  std::uint64_t seed = 40;
  for (const std::int64_t m : {1, 3, 256, 901}) {
    expect_right(copy_engine_case(m, 520, 128, 0), {0, 1}, 3, ++seed);
    expect_right(copy_engine_case(m, 520, 256, 192), {0, 1}, 3, ++seed);
  }
  expect_right(copy_engine_case(6000, 136, 256, 64), {0, 1}, 3, ++seed);  // several tiles for each CTA
}

TEST(AllGatherGemm, ReplaysOfCopiesInAGraphOnTwoGpus) {
  SKIP_WITHOUT_HOPPER(2);
  expect_right_replays(copy_engine_case(501, 520, 128, 192), {0, 1});
}

TEST(AllGatherGemm, VirtualRanksHaveNoCopyEngine) {
  SKIP_WITHOUT_HOPPER(1);
  const Case which = copy_engine_case(256, 64, 128, 0);
  Ranks ranks(which, virtual_ranks(2));
  Call call(which, virtual_ranks(2), 1);
  EXPECT_THROW(ranks.enqueue(call), InputError);
}

}  // namespace
}  // namespace xstage::gemm_test
