// Shares of split tiles: the parts of a tile cover it, no CTA has much more work than another, and the CTA that adds up
// the parts finds them in their order.

#include "ops/attention/shares.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <tuple>
#include <vector>

namespace xstage::shares_test {
namespace {

using schedule::AttentionSchedule;
using schedule::AttentionShape;
using schedule::AttentionShare;
using schedule::AttentionTile;
using schedule::AttentionTiling;
using schedule::least_share_blocks;
using schedule::shares_each;
using schedule::split_left_over;
using schedule::whole_tiles;

constexpr std::int32_t tile_rows = 192;
constexpr std::int32_t block_keys = 128;
/// An edge of a share moves to that of a tile if fewer blocks than the least would be cut off.
constexpr std::int32_t farthest_move = least_share_blocks - 1;

struct Case {
  AttentionSchedule schedule;
  std::int32_t ctas;
};

/// `rows` tiles of each of `heads` heads.
Case make_case(std::int32_t rows, std::int32_t heads, std::int32_t blocks, std::int32_t ctas) {
  AttentionShape shape{};
  shape.sequences = 1;
  shape.rows = rows * tile_rows - 1;
  shape.keys = blocks * block_keys - 1;
  shape.heads = heads;
  shape.group = 1;
  Case made{{}, ctas};
  made.schedule.start(shape, {tile_rows, block_keys, 0, 0, 64});
  return made;
}

class Random {
 public:
  explicit Random(std::uint32_t seed) : bits_(seed) {}
  int between(int least, int most) {
    return least + static_cast<int>(bits_() % static_cast<std::uint32_t>(most - least + 1));
  }

 private:
  std::mt19937 bits_;
};

/// Few and many tiles, short and long ones, for 1 to 200 CTAs.
Case random_case(Random& random) {
  AttentionShape shape{};
  shape.sequences = random.between(1, 3);
  shape.rows = random.between(1, random.between(0, 2) == 0 ? 10 * tile_rows : tile_rows);
  shape.keys = random.between(1, block_keys * (random.between(0, 1) == 0 ? 8 : 100));
  shape.group = random.between(1, 4);
  shape.heads = shape.group * random.between(1, 5);
  const std::int32_t row_tiles = (shape.rows - 1) / tile_rows + 1;
  Case made{{}, random.between(1, 200)};
  const std::int32_t first_row_tile = random.between(0, row_tiles - 1);
  made.schedule.start(shape, {tile_rows, block_keys, first_row_tile, random.between(0, row_tiles), 64});
  return made;
}

template <typename Check>
void check_case(const Case& made, Check&& check) {
  const AttentionShape& shape = made.schedule.shape();
  SCOPED_TRACE(testing::Message() << made.schedule.tiles() << " tiles of " << made.schedule.key_blocks()
                                  << " blocks on " << made.ctas << " CTAs; " << shape.sequences << " sequences of "
                                  << shape.rows << " rows, " << shape.heads << " heads in groups of " << shape.group);
  check(made.schedule, made.ctas, split_left_over(made.schedule, made.ctas));
}

/// Some hundred random shapes, and all of few CTAs and short tiles, where edges lie close together.
template <typename Check>
void for_cases(std::uint32_t seed, Check&& check) {
  Random random(seed);
  for (int round = 0; round < 800 && !testing::Test::HasFailure(); ++round) {
    check_case(random_case(random), check);
  }
  for (std::int32_t ctas = 1; ctas <= 16; ++ctas) {
    for (std::int32_t tiles = 1; tiles <= 2 * ctas; ++tiles) {
      for (std::int32_t blocks = 1; blocks <= 16 && !testing::Test::HasFailure(); ++blocks) {
        check_case(make_case(1, tiles, blocks, ctas), check);
      }
    }
  }
}

bool is_empty(const AttentionShare& share) { return share.tile.block_end == 0; }

std::int32_t blocks_of(const AttentionShare& share) { return share.tile.block_end - share.tile.block_begin; }

using TileName = std::tuple<std::int32_t, std::int32_t, std::int32_t>;

TileName name_of(const AttentionTile& tile) { return {tile.sequence, tile.head, tile.row}; }

/// The parts of every tile in the order of their keys.
std::map<TileName, std::vector<AttentionShare>> parts_of_tiles(const std::vector<AttentionShare>& shares) {
  std::map<TileName, std::vector<AttentionShare>> parts;
  for (const AttentionShare& share : shares) {
    if (!is_empty(share)) {
      parts[name_of(share.tile)].push_back(share);
    }
  }
  for (auto& [tile, of_tile] : parts) {
    std::sort(of_tile.begin(), of_tile.end(), [](const AttentionShare& left, const AttentionShare& right) {
      return left.tile.block_begin < right.tile.block_begin;
    });
  }
  return parts;
}

/// Blocks of each CTA.
std::vector<std::int32_t> loads(const std::vector<AttentionShare>& shares) {
  std::vector<std::int32_t> blocks(shares.size() / shares_each);
  for (std::size_t index = 0; index < shares.size(); ++index) {
    blocks[index / shares_each] += blocks_of(shares[index]);
  }
  return blocks;
}

TEST(AttentionShares, WholeTilesAreFullRounds) {
  for_cases(1, [](const AttentionSchedule& schedule, std::int32_t ctas, const std::vector<AttentionShare>&) {
    const std::int32_t whole = whole_tiles(schedule, ctas);
    ASSERT_EQ(whole % ctas, 0);
    ASSERT_GE(whole, 0);
    ASSERT_LE(whole, schedule.tiles());
    ASSERT_LT(schedule.tiles() - whole, ctas);
  });
}

/// Whole tiles and shares together: every block of keys of every tile once, and shares only of tiles that are left.
TEST(AttentionShares, EveryBlockOfEveryTileOnce) {
  for_cases(2, [](const AttentionSchedule& schedule, std::int32_t ctas, const std::vector<AttentionShare>& shares) {
    std::map<TileName, std::int32_t> index_of;
    for (std::int32_t index = 0; index < schedule.tiles(); ++index) {
      index_of[name_of(schedule.tile(index))] = index;
    }
    const auto blocks = static_cast<std::size_t>(schedule.key_blocks());
    const std::int32_t whole = whole_tiles(schedule, ctas);
    std::vector<int> taken(static_cast<std::size_t>(schedule.tiles()) * blocks, 0);
    std::fill_n(taken.begin(), static_cast<std::size_t>(whole) * blocks, 1);
    for (const AttentionShare& share : shares) {
      if (is_empty(share)) {
        continue;
      }
      const auto found = index_of.find(name_of(share.tile));
      ASSERT_NE(found, index_of.end());
      ASSERT_GE(found->second, whole);
      ASSERT_EQ(share.tile.key_head, schedule.tile(found->second).key_head);
      ASSERT_GE(share.tile.block_begin, 0);
      ASSERT_LE(share.tile.block_end, schedule.key_blocks());
      for (std::int32_t block = share.tile.block_begin; block < share.tile.block_end; ++block) {
        taken[static_cast<std::size_t>(found->second) * blocks + static_cast<std::size_t>(block)] += 1;
      }
    }
    for (std::size_t index = 0; index < taken.size(); ++index) {
      ASSERT_EQ(taken[index], 1) << "tile " << index / blocks << " block " << index % blocks;
    }
  });
}

TEST(AttentionShares, ACtaHasItsSharesFirstAndNoneOfNothing) {
  for_cases(3, [](const AttentionSchedule&, std::int32_t ctas, const std::vector<AttentionShare>& shares) {
    ASSERT_EQ(shares.size(), static_cast<std::size_t>(ctas * shares_each));
    for (std::size_t index = 0; index < shares.size(); ++index) {
      const bool first = index % shares_each == 0;
      ASSERT_TRUE(first || is_empty(shares[index]) || !is_empty(shares[index - 1])) << "share " << index;
      ASSERT_TRUE(is_empty(shares[index]) || blocks_of(shares[index]) > 0) << "share " << index;
    }
  });
}

TEST(AttentionShares, NoPartIsTooShort) {
  for_cases(4, [](const AttentionSchedule& schedule, std::int32_t, const std::vector<AttentionShare>& shares) {
    for (std::size_t index = 0; index < shares.size(); ++index) {
      const std::int32_t blocks = blocks_of(shares[index]);
      ASSERT_TRUE(is_empty(shares[index]) || blocks >= least_share_blocks || blocks == schedule.key_blocks())
          << blocks << " blocks in share " << index;
    }
  });
}

/// An equal share, rounded up or down, whose two edges have moved. Where the blocks do not suffice for all CTAs, some
/// have the least share and perhaps one block more, the others nothing.
TEST(AttentionShares, CtasHaveEqualShares) {
  for_cases(5, [](const AttentionSchedule& schedule, std::int32_t ctas, const std::vector<AttentionShare>& shares) {
    const std::int32_t blocks = (schedule.tiles() - whole_tiles(schedule, ctas)) * schedule.key_blocks();
    const std::int32_t equal = std::max((blocks + ctas - 1) / ctas, least_share_blocks + 1);
    const std::vector<std::int32_t> each = loads(shares);
    const auto [shortest, longest] = std::minmax_element(each.begin(), each.end());
    ASSERT_LE(*longest, equal + 2 * farthest_move);
    ASSERT_LE(*longest, schedule.key_blocks());  // or the tile had better stayed whole
    ASSERT_GE(*shortest, blocks / ctas - 2 * farthest_move);
    ASSERT_LE(*longest - *shortest, 1 + 4 * farthest_move);
  });
}

TEST(AttentionShares, PartsOfATileAreNumberedInTheOrderOfTheirKeys) {
  for_cases(6, [](const AttentionSchedule&, std::int32_t, const std::vector<AttentionShare>& shares) {
    for (const auto& [tile, parts] : parts_of_tiles(shares)) {
      for (std::size_t part = 0; part < parts.size(); ++part) {
        ASSERT_EQ(parts[part].part, static_cast<std::int32_t>(part));
        ASSERT_EQ(parts[part].parts, static_cast<std::int32_t>(parts.size()));
      }
    }
  });
}

/// What the parts find lies side by side, without gaps and nowhere twice; parts of a tile count on the same counter.
TEST(AttentionShares, EveryPartHasItsPlaceAndEveryTileItsCounter) {
  for_cases(7, [](const AttentionSchedule& schedule, std::int32_t ctas, const std::vector<AttentionShare>& shares) {
    const std::int32_t left = schedule.tiles() - whole_tiles(schedule, ctas);
    std::set<std::int32_t> slots;
    std::set<std::int32_t> counters;
    std::size_t parts_in_all = 0;
    for (const auto& [tile, parts] : parts_of_tiles(shares)) {
      for (const AttentionShare& share : parts) {
        ASSERT_EQ(share.first_slot, parts[0].first_slot);
        ASSERT_EQ(share.counter, parts[0].counter);
        slots.insert(share.first_slot + share.part);
      }
      ASSERT_TRUE(parts[0].counter >= 0 && parts[0].counter < left) << parts[0].counter;
      ASSERT_TRUE(counters.insert(parts[0].counter).second) << parts[0].counter;
      parts_in_all += parts.size();
    }
    ASSERT_EQ(slots.size(), parts_in_all);
    ASSERT_TRUE(slots.empty() || (*slots.begin() == 0 && *slots.rbegin() + 1 == static_cast<int>(slots.size())));
  });
}

/// As drawn in shares.hpp, with ten blocks in each tile.
TEST(AttentionShares, TwoTilesOnFourCtasAreHalved) {
  const Case made = make_case(6, 1, 10, 4);
  const std::vector<AttentionShare> shares = split_left_over(made.schedule, made.ctas);
  ASSERT_EQ(whole_tiles(made.schedule, made.ctas), 4);
  for (std::int32_t cta = 0; cta < 4; ++cta) {
    const AttentionShare& share = shares[static_cast<std::size_t>(cta * shares_each)];
    EXPECT_EQ(share.tile.row, (4 + cta / 2) * tile_rows);
    EXPECT_EQ(share.tile.block_begin, cta % 2 * 5);
    EXPECT_EQ(share.tile.block_end, cta % 2 * 5 + 5);
    EXPECT_TRUE(is_empty(shares[static_cast<std::size_t>(cta * shares_each + 1)]));
  }
}

TEST(AttentionShares, BlocksThatDoNotSufficeForAllGoToSome) {
  const Case made = make_case(1, 1, 10, 132);
  const std::vector<std::int32_t> each = loads(split_left_over(made.schedule, made.ctas));
  EXPECT_EQ(std::count(each.begin(), each.end(), least_share_blocks), 10 / least_share_blocks);
  EXPECT_EQ(std::count(each.begin(), each.end(), 0), 132 - 10 / least_share_blocks);
}

TEST(AttentionShares, FullRoundsLeaveNothingToShare) {
  for (const std::int32_t ctas : {1, 3, 6}) {
    const Case made = make_case(6, 1, 10, ctas);
    EXPECT_EQ(whole_tiles(made.schedule, ctas), 6);
    for (const AttentionShare& share : split_left_over(made.schedule, ctas)) {
      EXPECT_TRUE(is_empty(share));
    }
  }
}

}  // namespace
}  // namespace xstage::shares_test
