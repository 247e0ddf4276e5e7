// The claim orders of MoE: every tile once, Linear-1 before the Linear-2 that needs it, and no more blocks alive than
// the ring holds.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "ops/moe/test/schedule_routing.hpp"

namespace xstage::schedule_order_test {
namespace {

using schedule::ExpertWave;
using schedule::Interleaved;
using schedule::MoeDivisor;
using schedule::MoeLinear;
using schedule::MoeTile;
using schedule::MoeTiling;

template <typename Schedule>
class MoeScheduleOrder : public testing::Test {};
using Schedules = testing::Types<ExpertWave, Interleaved>;
TYPED_TEST_SUITE(MoeScheduleOrder, Schedules);

/// Rows of all tiles of an expert's column are its tokens, each in one tile: no tile is empty.
TYPED_TEST(MoeScheduleOrder, EveryTileOnce) {
  for_random_routings<TypeParam>(1, 300, 6000, [](const MoeCase<TypeParam>& test, MoeRandom&) {
    const MoeTiling& tiling = test.schedule.tiling();
    std::set<std::tuple<MoeLinear, int, int, int>> taken;
    std::map<std::tuple<MoeLinear, int, int>, int> rows;
    for (std::int32_t index = 0; index < test.schedule.tiles(); ++index) {
      const MoeTile tile = test.schedule.tile(index);
      const auto expert = static_cast<std::size_t>(tile.expert);
      ASSERT_LT(expert, test.counts.size());
      ASSERT_EQ(tile.block, test.first_block[expert] + tile.row / tiling.block_rows);
      ASSERT_EQ(tile.row % tiling.block_rows, 0);
      ASSERT_EQ(tile.rows, std::min(tiling.block_rows, test.counts[expert] - tile.row)) << "tile " << index;
      ASSERT_GT(tile.rows, 0) << "tile " << index;
      ASSERT_TRUE(taken.insert({tile.linear, tile.expert, tile.row, tile.column}).second) << "tile " << index;
      rows[{tile.linear, tile.expert, tile.column}] += tile.rows;
    }
    for (int expert = 0; expert < static_cast<int>(test.counts.size()); ++expert) {
      for (const MoeLinear linear : {MoeLinear::one, MoeLinear::two}) {
        const MoeDivisor& columns = linear == MoeLinear::one ? tiling.linear1_tiles : tiling.linear2_tiles;
        for (int column = 0; column < columns.value(); ++column) {
          ASSERT_EQ((rows[{linear, expert, column}]), test.counts[static_cast<std::size_t>(expert)]);
        }
        ASSERT_FALSE(rows.contains({linear, expert, columns.value()}));
      }
    }
  });
}

/// A single CTA that takes all tiles never meets one whose inputs are missing, nor more live blocks than the ring
/// holds.
TYPED_TEST(MoeScheduleOrder, Linear1ComesBeforeItsLinear2AndTheRingHoldsAllThatIsAlive) {
  for_random_routings<TypeParam>(2, 300, 6000, [](const MoeCase<TypeParam>& test, MoeRandom&) {
    const MoeTiling& tiling = test.schedule.tiling();
    std::vector<std::int32_t> linear1(static_cast<std::size_t>(test.blocks()), 0);
    std::vector<std::int32_t> linear2 = linear1;
    std::int32_t alive = 0;
    std::int32_t most = 0;
    for (std::int32_t index = 0; index < test.schedule.tiles(); ++index) {
      const MoeTile tile = test.schedule.tile(index);
      const auto block = static_cast<std::size_t>(tile.block);
      if (tile.linear == MoeLinear::one) {
        alive += linear1[block] == 0 ? 1 : 0;
        ++linear1[block];
        most = std::max(most, alive);
      } else {
        ASSERT_EQ(linear1[block], tiling.linear1_tiles.value()) << "tile " << index << " of block " << block;
        ++linear2[block];
        alive -= linear2[block] == tiling.linear2_tiles.value() ? 1 : 0;
      }
    }
    ASSERT_EQ(alive, 0);
    ASSERT_LE(most, test.schedule.ring_blocks());
    ASSERT_GE(most, std::min(test.schedule.ring_blocks() - 1, test.blocks())) << "the ring is larger than it need be";
  });
}

TEST(MoeScheduleOrder, AWaveIsLinear1OfItsExpertsThenTheirLinear2) {
  for_random_routings<ExpertWave>(3, 200, 6000, [](const MoeCase<ExpertWave>& test, MoeRandom&) {
    std::tuple<int, MoeLinear, int, int> before{-1, MoeLinear::one, 0, 0};
    for (std::int32_t index = 0; index < test.schedule.tiles(); ++index) {
      const MoeTile tile = test.schedule.tile(index);
      const std::tuple<int, MoeLinear, int, int> place{tile.expert / test.parameter, tile.linear, tile.block,
                                                       tile.column};
      ASSERT_LT(before, place) << "tile " << index;
      before = place;
    }
  });
}

TEST(MoeScheduleOrder, AnyCountsOfAWaveFitInTheRingMadeForTheirTokens) {
  for_random_routings<ExpertWave>(4, 400, 3000, [](const MoeCase<ExpertWave>& test, MoeRandom&) {
    const std::int32_t tokens = std::accumulate(test.counts.begin(), test.counts.end(), 0);
    ASSERT_LE(test.schedule.ring_blocks(),
              ExpertWave::most_ring_blocks(test.schedule.tiling(), test.parameter, tokens));
  });
  // 65 and 65 make four blocks; one token less, and one of them is gone.
  EXPECT_EQ(schedule::most_moe_blocks(130, 2, 64), 4);
  EXPECT_EQ(schedule::most_moe_blocks(129, 2, 64), 3);
  EXPECT_EQ(schedule::most_moe_blocks(3, 8, 64), 3);
  EXPECT_EQ(schedule::most_moe_blocks(0, 8, 64), 0);
}

/// Linear-1 of a block comes with Linear-2 of the one `lead` before; both in their order.
TEST(MoeScheduleOrder, InterleavedStepsHaveLinear1OfOneBlockAndLinear2OfTheLeadBefore) {
  for_random_routings<Interleaved>(5, 200, 6000, [](const MoeCase<Interleaved>& test, MoeRandom&) {
    const MoeTiling& tiling = test.schedule.tiling();
    const std::int32_t head = std::min(test.parameter, test.blocks()) * tiling.linear1_tiles.value();
    std::int32_t next[2] = {0, 0};
    for (std::int32_t index = 0; index < test.schedule.tiles(); ++index) {
      const MoeTile tile = test.schedule.tile(index);
      const bool one = tile.linear == MoeLinear::one;
      const MoeDivisor& columns = one ? tiling.linear1_tiles : tiling.linear2_tiles;
      ASSERT_EQ(tile.block * columns.value() + tile.column, next[one ? 0 : 1]++) << "tile " << index;
      ASSERT_TRUE(one || index >= head) << "tile " << index;
      const std::int32_t step = (index - head) / tiling.block_tiles.value();
      if (index >= head && step < test.blocks() - test.parameter) {
        ASSERT_EQ(tile.block, one ? step + test.parameter : step) << "tile " << index;
      }
    }
  });
}

/// Tiles of Linear-2, whose results leave the rank, keep as even a distance as whole tiles allow.
TEST(MoeScheduleOrder, InterleavedStepsAreMixedEvenly) {
  for (const auto& [linear1, linear2] : {std::pair{16, 28}, {12, 16}, {32, 8}, {5, 1}, {1, 5}, {7, 7}}) {
    const MoeCase<Interleaved> test({64 * 100}, moe_tiling(64, linear1, linear2), 4);
    const std::int32_t all = linear1 + linear2;
    for (std::int32_t step = 0; step < 96; ++step) {
      std::int32_t seen = 0;
      std::int32_t least = 0;
      std::int32_t most = 0;
      for (std::int32_t place = 0; place < all; ++place) {
        seen += test.schedule.tile(4 * linear1 + step * all + place).linear == MoeLinear::two ? 1 : 0;
        least = std::min(least, seen * all - (place + 1) * linear2);
        most = std::max(most, seen * all - (place + 1) * linear2);
      }
      ASSERT_EQ(seen, linear2);
      ASSERT_LT(most - least, all) << "step " << step << " of " << linear1 << " and " << linear2;
    }
  }
}

/// CTAs that take tiles in turn get as much of Linear-2 as the others within a tenth of their tiles, also where all of
/// a step's tiles go round evenly: with the same mixture in every step some of 132 CTAs would get nothing else.
TEST(MoeScheduleOrder, TilesTakenInTurnAreOfBothKindsForEveryCta) {
  for (const std::int32_t ctas : {132, 88, 44, 114, 148, 1, 200}) {
    const MoeCase<Interleaved> test({128 * 800}, moe_tiling(128, 16, 28), 10);
    std::int32_t least = test.schedule.tiles();
    std::int32_t most = 0;
    for (std::int32_t cta = 0; cta < ctas; ++cta) {
      std::int32_t linear2 = 0;
      for (std::int32_t index = cta; index < test.schedule.tiles(); index += ctas) {
        linear2 += test.schedule.tile(index).linear == MoeLinear::two ? 1 : 0;
      }
      least = std::min(least, linear2);
      most = std::max(most, linear2);
    }
    const std::int32_t each = test.schedule.tiles() / ctas;
    EXPECT_LE(most - least, each / 10) << ctas << " CTAs, of " << each << " tiles each";
  }
}

TEST(MoeScheduleOrder, DivisorsDivide) {
  MoeRandom random(6);
  for (std::int32_t value = 1; value < 65536; value = value < 600 ? value + 1 : value + random.between(1, 300)) {
    MoeDivisor divisor{};
    divisor.start(value);
    const std::int32_t multiple = random.between(1, 0x7fffffff / value) * value;
    for (const std::int32_t dividend :
         {0, value - 1, value, multiple, multiple - 1, 0x7fffffff, 0x7ffffffe, random.between(0, 0x7ffffffe)}) {
      ASSERT_EQ(divisor.quotient(dividend), dividend / value) << dividend << " / " << value;
    }
  }
}

}  // namespace
}  // namespace xstage::schedule_order_test
