// The grouped GEMM against a reference in double, on fresh random operands: see grouped_support.hpp.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/normal_pattern.hpp"
#include "gpu/rank_support.hpp"
#include "ops/moe/test/gpu/grouped_support.hpp"
#include "xstage/error.hpp"
#include "xstage/moe.hpp"

namespace xstage::grouped_test {
namespace {

using gpu_test::Random;
using kernels::GroupedPlan;
using kernels::GroupedShape;
using moe_test::GroupedCase;
using moe_test::GroupedLayer;
using moe_test::upload;

void expect_right(const GroupedCase& which, std::uint64_t seed) {
  const GroupedLayer layer(which, seed);
  SCOPED_TRACE(layer.text());
  const cuda::Stream stream(0);
  layer.launch(stream.get());
  cuda::check(cudaStreamSynchronize(stream.get()), "running a grouped GEMM");
  EXPECT_EQ(layer.complaint(), "");
}

GroupedShape shape_of(std::int32_t columns, std::int32_t depth, bool gated) {
  return {0, columns, depth, gated, 0};  // experts and rows come from the counts
}

GroupedPlan tiles_of(int columns, int cluster = 0, bool pairs = true) {
  GroupedPlan plan;
  plan.tile_columns = columns;
  plan.cluster = cluster;
  plan.pair_blocks = pairs;
  return plan;
}

const std::vector<std::int32_t> around_a_block = {0, 1, 127, 128, 129, 0, 0, 255, 256, 257, 64, 65, 63, 385, 0};

TEST(MoeGrouped, RowsAroundABlock) {
  SKIP_WITHOUT_HOPPER(1);
  for (const bool gated : {false, true}) {
    for (const int tile : {128, 256}) {
      for (const int cluster : {1, 2}) {
        expect_right({shape_of(512, 320, gated), around_a_block, 0, tiles_of(tile, cluster)}, 11);
      }
      expect_right({shape_of(512, 320, gated), around_a_block, 0, tiles_of(tile, 2, false)}, 12);
    }
  }
}

/// The columns of a tile beyond an expert's last one belong to the next expert, whose weights may be NaN.
TEST(MoeGrouped, CutTiles) {
  SKIP_WITHOUT_HOPPER(1);
  for (const int tile : {128, 256}) {
    for (const std::int32_t columns : {64, 192, 320, 448, 576, 704}) {
      expect_right({shape_of(columns, 128, false), around_a_block, 0, tiles_of(tile)}, 21);
    }
    for (const std::int32_t columns : {128, 384, 640, 896}) {
      expect_right({shape_of(columns, 128, true), around_a_block, 0, tiles_of(tile)}, 22);
    }
  }
}

TEST(MoeGrouped, ShortAndLongDepths) {
  SKIP_WITHOUT_HOPPER(1);
  for (const std::int32_t depth : {64, 128, 192, 256, 320, 448, 2048}) {
    for (const bool gated : {false, true}) {
      expect_right({shape_of(512, depth, gated), {200, 0, 70, 513}, 0, tiles_of(256)}, 31);
      expect_right({shape_of(256, depth, gated), {200, 0, 70, 513}, 0, tiles_of(128)}, 32);
    }
  }
}

TEST(MoeGrouped, Clamp) {
  SKIP_WITHOUT_HOPPER(1);
  for (const float clamp : {0.1F, 0.7F, 10.0F}) {
    expect_right({shape_of(512, 256, true), around_a_block, clamp, {}}, 41);
  }
}

TEST(MoeGrouped, NobodyHasRows) {
  SKIP_WITHOUT_HOPPER(1);
  expect_right({shape_of(512, 128, true), {0, 0, 0}, 0, {}}, 51);
  expect_right({shape_of(512, 128, false), {0}, 0, {}}, 52);
}

TEST(MoeGrouped, ManyExperts) {
  SKIP_WITHOUT_HOPPER(1);
  std::vector<std::int32_t> counts(kernels::most_grouped_experts);
  for (std::size_t expert = 0; expert < counts.size(); ++expert) {
    counts[expert] = expert % 5 == 0 ? 0 : static_cast<std::int32_t>(expert % 7 * 23);
  }
  expect_right({shape_of(256, 128, true), counts, 0, {}}, 61);
  expect_right({shape_of(128, 64, false), counts, 0, {}}, 62);
}

TEST(MoeGrouped, OneExpertTakesAll) {
  SKIP_WITHOUT_HOPPER(1);
  expect_right({shape_of(1024, 256, true), {0, 0, 10000, 0}, 0, {}}, 71);
  expect_right({shape_of(1024, 256, false), {10000}, 0, {}}, 72);
}

/// Shapes, counts and plans at random; few CTAs make each of them take many tiles.
TEST(MoeGrouped, AtRandom) {
  SKIP_WITHOUT_HOPPER(1);
  Random random(81);
  for (std::uint64_t round = 0; round < 60 && !HasFailure(); ++round) {
    const bool gated = random.between(0, 1) == 1;
    GroupedCase which;
    which.shape = shape_of((gated ? 128 : 64) * random.between(1, 9), 64 * random.between(1, 24), gated);
    for (int experts = random.between(1, 20); experts > 0; --experts) {
      which.counts.push_back(random.between(0, 2) == 0 ? 0 : random.between(1, random.of({4, 128, 700})));
    }
    which.clamp = random.of({0.0F, 0.0F, 1.0F});
    which.plan.tile_columns = random.of({0, 128, 256});
    which.plan.pair_blocks = random.between(0, 2) > 0;
    which.plan.group = random.between(1, 9);
    which.plan.stages = random.of({0, 2, 3});
    which.plan.staging = random.of({0, 1, 2});
    which.plan.issuers = random.of({0, 2, 10, 64});
    expect_right(which, 1000 + 10 * round);
  }
}

/// The same launch for counts that only the device knows: from call to call without the host.
TEST(MoeGrouped, CountsChangeBetweenLaunches) {
  SKIP_WITHOUT_HOPPER(1);
  GroupedLayer layer({shape_of(512, 192, true), {300, 300, 300, 300}, 0, {}}, 91);
  const cuda::Stream stream(0);
  for (const std::vector<std::int32_t>& counts :
       {std::vector<std::int32_t>{1, 2, 3, 4}, {1100, 0, 0, 1}, {0, 0, 0, 0}, {129, 128, 127, 126}}) {
    layer.set_counts(counts);
    SCOPED_TRACE(layer.text());
    layer.launch(stream.get());
    cuda::check(cudaStreamSynchronize(stream.get()), "running a grouped GEMM");
    EXPECT_EQ(layer.complaint(), "");
  }
}

TEST(MoeGrouped, SameBitsInEveryReplay) {
  SKIP_WITHOUT_HOPPER(1);
  const GroupedLayer layer({shape_of(1024, 512, true), {700, 3, 128, 0, 1000}, 0, {}}, 95);
  const cuda::Stream stream(0);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  cuda::check(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal), "capturing");
  layer.launch(stream.get());
  layer.launch(stream.get());
  cuda::check(cudaStreamEndCapture(stream.get(), &graph), "capturing");
  cuda::check(cudaGraphInstantiate(&executable, graph, 0), "making a graph");
  std::vector<std::uint16_t> first;
  for (int replay = 0; replay < 5; ++replay) {
    layer.poison();
    cuda::check(cudaGraphLaunch(executable, stream.get()), "replaying");
    cuda::check(cudaStreamSynchronize(stream.get()), "replaying");
    ASSERT_EQ(layer.complaint(), "");
    const std::vector<std::uint16_t> results = layer.results();
    if (replay == 0) {
      first = results;
    }
    ASSERT_EQ(results, first) << "replay " << replay;
  }
  static_cast<void>(cudaGraphExecDestroy(executable));
  static_cast<void>(cudaGraphDestroy(graph));
}

/// Rules are checked before tensor maps are made.
TEST(MoeGrouped, BadInputSaysWhatIsWrong) {
  SKIP_WITHOUT_HOPPER(1);
  const auto complaint = [](const GroupedShape& shape, const GroupedPlan& plan) -> std::string {
    try {
      static_cast<void>(kernels::make_grouped(shape, plan, {}));
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  };
  const GroupedShape good{4, 768, 256, false, 100};
  const GroupedPlan plan = kernels::complete_grouped_plan(good, {}, 132);
  EXPECT_THAT(complaint({257, 768, 256, false, 0}, plan), testing::HasSubstr("257 experts"));
  EXPECT_THAT(complaint({4, 96, 256, false, 0}, plan), testing::HasSubstr("96 columns"));
  EXPECT_THAT(complaint({4, 192, 256, true, 0}, plan), testing::HasSubstr("multiple of 128"));
  EXPECT_THAT(complaint({4, 768, 100, false, 0}, plan), testing::HasSubstr("depth of 100"));
  GroupedPlan odd = plan;
  odd.tile_columns = 256;
  odd.cluster = 2;
  EXPECT_THAT(complaint(good, odd), testing::HasSubstr("are 3 tiles"));
  GroupedPlan deep = plan;
  deep.stages = 8;
  EXPECT_THAT(complaint(good, deep), testing::HasSubstr("bytes of shared memory"));
}

TEST(MoePacking, GateAndUpAlternateByEightRows) {
  SKIP_WITHOUT_HOPPER(1);
  moe::Problem problem;
  problem.hidden = 192;
  problem.intermediate = 320;
  problem.experts_per_rank = 3;
  problem.top_k = 1;
  problem.most_tokens = 1;
  const auto each = static_cast<std::size_t>(problem.hidden * problem.intermediate);
  const std::vector<std::uint16_t> both = bench::normal_pattern(6 * each, 1.0, 5);  // per expert: gate, then up
  const cuda::DeviceBuffer there = upload(both, "gate and up");
  const cuda::DeviceBuffer packed(0, 6 * each * 2, "packed weights");
  const cuda::Stream stream(0);
  moe::pack_linear1(problem, there.as<std::uint16_t>(), there.as<std::uint16_t>() + each,
                    static_cast<std::int64_t>(2 * each), packed.as<void>(), stream.get());
  cuda::check(cudaStreamSynchronize(stream.get()), "packing");
  const std::vector<std::uint16_t> result = packed.read<std::uint16_t>(6 * each);
  const auto hidden = static_cast<std::size_t>(problem.hidden);
  for (std::size_t expert = 0; expert < 3; ++expert) {
    for (std::size_t row = 0; row < 2 * static_cast<std::size_t>(problem.intermediate); ++row) {
      const std::size_t source_row = row / 16 * 8 + row % 8;
      const std::size_t source = 2 * expert * each + (row % 16 < 8 ? 0 : each) + source_row * hidden;
      const std::size_t place = 2 * expert * each + row * hidden;
      ASSERT_TRUE(std::equal(both.begin() + static_cast<std::ptrdiff_t>(source),
                             both.begin() + static_cast<std::ptrdiff_t>(source + hidden),
                             result.begin() + static_cast<std::ptrdiff_t>(place)))
          << "expert " << expert << ", row " << row;
    }
  }
  EXPECT_THROW(moe::pack_linear1(problem, there.as<char>() + 2, there.as<void>(), 0, packed.as<void>(), stream.get()),
               InputError);
  EXPECT_THROW(moe::pack_linear1(problem, there.as<void>(), there.as<void>(), 64, packed.as<void>(), stream.get()),
               InputError);
}

}  // namespace
}  // namespace xstage::grouped_test
