// The order of the tiles of one linear layer, and the rule that picks the shape of its tiles.

#include "ops/moe/linear_order.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "ops/moe/grouped_plan.hpp"
#include "ops/moe/test/schedule_routing.hpp"

namespace xstage::linear_order_test {
namespace {

using schedule::LinearOrder;
using schedule::LinearSharing;
using schedule::LinearTile;
using schedule::LinearTiling;
using schedule::MoeBlocks;

constexpr std::int32_t block_rows = 128;

struct OrderCase {
  std::vector<std::int32_t> counts;
  std::vector<std::int32_t> first_block;
  LinearTiling tiling{};

  OrderCase(std::vector<std::int32_t> tokens, std::int32_t columns, std::int32_t cluster, bool pairs,
            std::int32_t group)
      : counts(std::move(tokens)), first_block(counts.size() + 1) {
    MoeBlocks::sum(counts.data(), experts(), block_rows, first_block.data());
    tiling.start(block_rows, columns, cluster, pairs, group);
  }
  [[nodiscard]] std::int32_t experts() const { return static_cast<std::int32_t>(counts.size()); }
  [[nodiscard]] LinearOrder order() const { return {tiling, counts.data(), first_block.data(), experts()}; }
};

template <typename Check>
void for_random_orders(int rounds, Check&& check) {
  MoeRandom random(7);
  for (int round = 0; round < rounds && !testing::Test::HasFailure(); ++round) {
    const int experts = round % 3 == 0 ? random.between(1, 3) : random.between(1, 256);
    const int tokens = round % 7 == 0 ? random.between(0, 20) : random.between(0, 20000);
    const int cluster = random.between(1, 2);
    const int columns = random.between(1, 16) * cluster;
    const OrderCase test(random_counts(random, experts, tokens), columns, cluster, random.between(0, 3) > 0,
                         random.between(1, 9));
    SCOPED_TRACE(std::to_string(round));
    check(test);
  }
}

TEST(MoeLinearOrder, EveryTileOnce) {
  for_random_orders(300, [](const OrderCase& test) {
    const LinearOrder order = test.order();
    std::set<std::tuple<int, int>> taken;  // block, column
    std::vector<std::int64_t> rows(test.counts.size(), 0);
    for (std::int32_t index = 0; index < order.cluster_tiles(); ++index) {
      for (std::int32_t rank = 0; rank < test.tiling.cluster; ++rank) {
        const LinearTile tile = order.tile(index, rank);
        const auto expert = static_cast<std::size_t>(tile.expert);
        ASSERT_LT(expert, test.counts.size());
        ASSERT_GE(tile.block, test.first_block[expert]);
        ASSERT_LT(tile.block, test.first_block[expert + 1]);
        ASSERT_GE(tile.column, 0);
        ASSERT_LT(tile.column, test.tiling.columns);
        ASSERT_TRUE(taken.insert({tile.block, tile.column}).second) << "cluster tile " << index;
        const std::int32_t before = (tile.block - test.first_block[expert]) * block_rows;
        ASSERT_EQ(tile.rows, std::min(block_rows, test.counts[expert] - before));
        rows[expert] += tile.rows;
      }
    }
    for (std::size_t expert = 0; expert < rows.size(); ++expert) {
      ASSERT_EQ(rows[expert], std::int64_t{test.counts[expert]} * test.tiling.columns);
    }
  });
}

/// Both CTAs of a cluster agree on the shared operand, and never share weights of two experts.
TEST(MoeLinearOrder, ClustersShareWhatTheyHaveInCommon) {
  for_random_orders(300, [](const OrderCase& test) {
    const LinearOrder order = test.order();
    for (std::int32_t index = 0; index < order.cluster_tiles(); ++index) {
      const LinearTile first = order.tile(index, 0);
      if (test.tiling.cluster == 1) {
        ASSERT_EQ(first.sharing, LinearSharing::none);
        continue;
      }
      const LinearTile second = order.tile(index, 1);
      ASSERT_EQ(first.sharing, second.sharing);
      ASSERT_EQ(first.expert, second.expert);
      if (first.sharing == LinearSharing::rows) {
        ASSERT_EQ(first.block, second.block);
        ASSERT_EQ(second.column, first.column + 1);
      } else {
        ASSERT_EQ(first.sharing, LinearSharing::weights);
        ASSERT_EQ(second.block, first.block + 1);
        ASSERT_EQ(first.column, second.column);
        ASSERT_EQ(first.rows, block_rows);
      }
    }
  });
}

/// Where clusters take pairs of blocks, only the last block of an expert with an odd number is without a partner.
TEST(MoeLinearOrder, BlocksArePairedWhereTheyCanBe) {
  for_random_orders(300, [](const OrderCase& test) {
    const LinearOrder order = test.order();
    std::map<int, int> alone;  // cluster tiles of an expert that share rows
    for (std::int32_t index = 0; index < order.cluster_tiles(); ++index) {
      const LinearTile tile = order.tile(index, 0);
      alone[tile.expert] += tile.sharing == LinearSharing::rows ? 1 : 0;
    }
    if (test.tiling.cluster == 2) {
      for (const auto& [expert, tiles] : alone) {
        const auto place = static_cast<std::size_t>(expert);
        const int blocks = test.first_block[place + 1] - test.first_block[place];
        const int unpaired = test.tiling.pairs_blocks != 0 ? blocks % 2 : blocks;
        ASSERT_EQ(tiles, unpaired * test.tiling.columns / 2) << "expert " << expert;
      }
    }
  });
}

/// Experts one after the other, so that each weight comes from memory once.
TEST(MoeLinearOrder, ExpertsOneAfterTheOther) {
  for_random_orders(100, [](const OrderCase& test) {
    const LinearOrder order = test.order();
    std::int32_t expert = 0;
    for (std::int32_t index = 0; index < order.cluster_tiles(); ++index) {
      const std::int32_t next = order.tile(index, 0).expert;
      ASSERT_GE(next, expert);
      expert = next;
    }
  });
}

/// By hand: 5 blocks, 4 columns, groups of one pair. Pairs (0, 1) and (2, 3) column by column, then block 4.
TEST(MoeLinearOrder, ByHand) {
  const OrderCase test({4 * block_rows + 1}, 4, 2, true, 1);
  const LinearOrder order = test.order();
  ASSERT_EQ(order.cluster_tiles(), 10);
  const int expected[10][4] = {{0, 0, 1, 0}, {0, 1, 1, 1}, {0, 2, 1, 2}, {0, 3, 1, 3}, {2, 0, 3, 0},
                               {2, 1, 3, 1}, {2, 2, 3, 2}, {2, 3, 3, 3}, {4, 0, 4, 1}, {4, 2, 4, 3}};
  for (std::int32_t index = 0; index < 10; ++index) {
    const LinearTile first = order.tile(index, 0);
    const LinearTile second = order.tile(index, 1);
    const int* want = expected[index];
    EXPECT_EQ(first.block, want[0]) << index;
    EXPECT_EQ(first.column, want[1]) << index;
    EXPECT_EQ(second.block, want[2]) << index;
    EXPECT_EQ(second.column, want[3]) << index;
  }
}

/// Groups of two pairs: rows fastest.
TEST(MoeLinearOrder, RowsOfAGroupAreFastest) {
  const OrderCase test({6 * block_rows}, 2, 2, true, 2);
  const LinearOrder order = test.order();
  const int expected[6][2] = {{0, 0}, {2, 0}, {0, 1}, {2, 1}, {4, 0}, {4, 1}};
  for (std::int32_t index = 0; index < 6; ++index) {
    EXPECT_EQ(order.tile(index, 0).block, expected[index][0]) << index;
    EXPECT_EQ(order.tile(index, 0).column, expected[index][1]) << index;
  }
}

TEST(MoeLinearOrder, NoTokensNoTiles) {
  const OrderCase test({0, 0, 0}, 4, 2, true, 8);
  EXPECT_EQ(test.order().cluster_tiles(), 0);
}

// ---- the rule
// ------------------------------------------------------------------------------------------------------------

constexpr int h200_multiprocessors = 132;

kernels::GroupedPlan plan_for(std::int32_t experts, std::int32_t columns, std::int32_t depth, bool gated,
                              std::int64_t rows) {
  return kernels::complete_grouped_plan({experts, columns, depth, gated, rows}, {}, h200_multiprocessors);
}

/// Whatever the shape, the plan is one that the kernel can run: it fits, and clusters have pairs of columns.
TEST(MoeGroupedPlan, FitsForAllShapes) {
  MoeRandom random(3);
  for (int round = 0; round < 2000; ++round) {
    const bool gated = random.between(0, 1) == 1;
    const int columns = random.between(1, 200) * (gated ? 128 : 64);
    const kernels::GroupedPlan plan =
        plan_for(random.between(1, 256), columns, 64 * random.between(1, 128), gated, random.between(0, 100000));
    SCOPED_TRACE(std::to_string(columns) + (gated ? " gated" : ""));
    EXPECT_LE(kernels::grouped_shared_bytes(plan.tile_columns, plan.stages, plan.staging),
              kernels::shared_memory_bytes);
    EXPECT_GE(plan.stages, 4);
    EXPECT_LE(plan.stages, kernels::most_grouped_stages);
    EXPECT_GE(plan.staging, 1);
    EXPECT_LE(plan.staging, kernels::grouped_chunks(gated, plan.tile_columns));
    EXPECT_EQ((columns + plan.tile_columns - 1) / plan.tile_columns % plan.cluster, 0);
    EXPECT_EQ(plan.issuers % plan.cluster, 0);
  }
}

/// By hand, 16 experts of 512 rows: 64 blocks of 12 tiles of 256 columns are 384 cluster tiles, 6 waves of 66 clusters,
/// and twice as many narrow ones are 12 waves, each of more than half the time.
TEST(MoeGroupedPlan, WideTilesForManyRows) { EXPECT_EQ(plan_for(16, 3072, 4096, true, 8192).tile_columns, 256); }

/// By hand, 16 experts of one row each: 96 cluster tiles of 256 columns are two waves of 66 clusters, 192 narrow ones
/// are three, which take 3 * 400 where the wide ones take 2 * 670.
TEST(MoeGroupedPlan, NarrowTilesWhereTheyFillTheLastWave) {
  EXPECT_EQ(plan_for(16, 3072, 4096, true, 16).tile_columns, 128);
}

/// Beside staging for a whole wide tile of Linear-2 only three stages would fit.
TEST(MoeGroupedPlan, FourStagesComeBeforeStagingForAWholeTile) {
  kernels::GroupedPlan wanted;
  wanted.tile_columns = 256;
  const kernels::GroupedPlan plan =
      kernels::complete_grouped_plan({16, 4096, 1536, false, 8192}, wanted, h200_multiprocessors);
  EXPECT_EQ(plan.stages, 4);
  EXPECT_EQ(plan.staging, 2);
}

}  // namespace
}  // namespace xstage::linear_order_test
