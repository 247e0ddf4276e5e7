// Which tile comes next: every tile once, with the key blocks that its rows see, in the order that the schedule states.

#include "schedule/attention_schedule.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <tuple>

#include "attention/problem.hpp"

namespace xstage {
namespace {

using schedule::AttentionSchedule;
using schedule::AttentionShape;
using schedule::AttentionTile;
using schedule::AttentionTiling;

class Random {
 public:
  explicit Random(std::uint32_t seed) : bits_(seed) {}
  int between(int least, int most) {
    return least + static_cast<int>(bits_() % static_cast<std::uint32_t>(most - least + 1));
  }

 private:
  std::mt19937 bits_;
};

std::int32_t divide_up(std::int32_t value, std::int32_t by) { return (value + by - 1) / by; }

/// Any shape and order, also those that no plan asks for.
AttentionSchedule random_schedule(Random& random, bool causal) {
  AttentionShape shape{};
  shape.sequences = random.between(1, 4);
  shape.rows = random.between(0, 3) == 0 ? random.between(1, 200) : random.between(1, 4000);
  shape.keys = causal ? shape.rows : random.between(1, 4000);
  shape.group = random.between(1, 4);
  shape.heads = shape.group * random.between(1, 5);
  shape.causal = causal ? 1 : 0;
  AttentionTiling tiling{};
  tiling.tile_rows = 64 * random.between(1, 3);
  tiling.block_keys = 16 * random.between(4, 11);
  tiling.first_row_tile = random.between(0, divide_up(shape.rows, tiling.tile_rows) - 1);
  AttentionSchedule schedule;
  schedule.start(shape, tiling);
  return schedule;
}

testing::Message describe(const AttentionSchedule& schedule) {
  const AttentionShape& shape = schedule.shape();
  const AttentionTiling& tiling = schedule.tiling();
  return testing::Message() << shape.sequences << " sequences of " << shape.rows << " rows and " << shape.keys
                            << " keys, " << shape.heads << " heads in groups of " << shape.group
                            << (shape.causal != 0 ? ", causal" : "") << "; tiles of " << tiling.tile_rows << " rows, "
                            << tiling.block_keys << " keys, from " << tiling.first_row_tile;
}

template <typename Check>
void for_random_schedules(std::uint32_t seed, bool causal, Check&& check) {
  Random random(seed);
  for (int round = 0; round < 400; ++round) {
    const AttentionSchedule schedule = random_schedule(random, causal);
    SCOPED_TRACE(describe(schedule));
    check(schedule);
    if (testing::Test::HasFailure()) {
      return;
    }
  }
}

std::int32_t row_tiles(const AttentionSchedule& schedule) {
  return divide_up(schedule.shape().rows, schedule.tiling().tile_rows);
}

std::int32_t line_of(const AttentionSchedule& schedule, const AttentionTile& tile) {
  return tile.sequence * schedule.shape().heads + tile.head;
}

/// Each row of each head of each sequence, and no tile without rows.
void expect_every_tile_once(const AttentionSchedule& schedule) {
  const AttentionShape& shape = schedule.shape();
  std::map<std::tuple<int, int, int>, int> taken;
  for (std::int32_t index = 0; index < schedule.tiles(); ++index) {
    const AttentionTile tile = schedule.tile(index);
    ASSERT_TRUE(tile.row >= 0 && tile.row < shape.rows) << "tile " << index << " begins with row " << tile.row;
    ASSERT_EQ(tile.row % schedule.tiling().tile_rows, 0);
    ASSERT_TRUE(tile.head >= 0 && tile.head < shape.heads) << tile.head;
    ASSERT_TRUE(tile.sequence >= 0 && tile.sequence < shape.sequences) << tile.sequence;
    ASSERT_EQ(tile.key_head, tile.head / shape.group);
    taken[{tile.sequence, tile.head, tile.row / schedule.tiling().tile_rows}] += 1;
  }
  ASSERT_EQ(taken.size(), static_cast<std::size_t>(row_tiles(schedule) * shape.heads * shape.sequences));
  for (const auto& [tile, times] : taken) {
    ASSERT_EQ(times, 1) << "sequence " << std::get<0>(tile) << " head " << std::get<1>(tile) << " row tile "
                        << std::get<2>(tile);
  }
}

TEST(AttentionSchedule, EveryTileOfEveryHeadOnce) {
  for (const bool causal : {false, true}) {
    for_random_schedules(1, causal, expect_every_tile_once);
  }
}

TEST(AttentionSchedule, FullTilesSeeAllKeysAndNoBlockIsEmpty) {
  for_random_schedules(2, false, [](const AttentionSchedule& schedule) {
    for (std::int32_t index = 0; index < schedule.tiles(); ++index) {
      const AttentionTile tile = schedule.tile(index);
      ASSERT_EQ(tile.block_begin, 0);
      ASSERT_GE(tile.block_end * schedule.tiling().block_keys, schedule.shape().keys);
      ASSERT_LT((tile.block_end - 1) * schedule.tiling().block_keys, schedule.shape().keys);
      ASSERT_EQ(schedule.key_blocks(), tile.block_end);
    }
    ASSERT_EQ(schedule.blocks_of_rows(1), schedule.key_blocks());
  });
}

/// Row i sees keys 0 to i: the blocks of a tile are those up to the one with its last row's own key.
TEST(AttentionSchedule, CausalTilesHaveTheBlocksThatTheirLastRowSees) {
  for_random_schedules(3, true, [](const AttentionSchedule& schedule) {
    const AttentionTiling& tiling = schedule.tiling();
    for (std::int32_t index = 0; index < schedule.tiles(); ++index) {
      const AttentionTile tile = schedule.tile(index);
      const std::int32_t end = std::min(schedule.shape().rows, tile.row + tiling.tile_rows);
      ASSERT_EQ(tile.block_begin, 0);
      ASSERT_EQ(tile.block_end, (end - 1) / tiling.block_keys + 1) << "row " << tile.row;
    }
    for (std::int32_t end = 1; end <= schedule.shape().rows; ++end) {
      ASSERT_EQ(schedule.blocks_of_rows(end), (end - 1) / tiling.block_keys + 1) << "rows before " << end;
    }
  });
}

/// Heads in their order, each from the first row tile on and round to it.
TEST(AttentionSchedule, FullTilesOfAHeadAreNeighbours) {
  for_random_schedules(4, false, [](const AttentionSchedule& schedule) {
    std::int32_t index = 0;
    for (std::int32_t line = 0; line < schedule.shape().sequences * schedule.shape().heads; ++line) {
      for (std::int32_t step = 0; step < row_tiles(schedule); ++step, ++index) {
        const AttentionTile tile = schedule.tile(index);
        const std::int32_t row_tile = (schedule.tiling().first_row_tile + step) % row_tiles(schedule);
        ASSERT_EQ(line_of(schedule, tile), line);
        ASSERT_EQ(tile.row, row_tile * schedule.tiling().tile_rows);
      }
    }
    ASSERT_EQ(index, schedule.tiles());
  });
}

/// The last row tile of every head, in their order, then the ones before them: tiles never become longer.
TEST(AttentionSchedule, CausalTilesComeLongestFirst) {
  for_random_schedules(5, true, [](const AttentionSchedule& schedule) {
    const std::int32_t lines = schedule.shape().sequences * schedule.shape().heads;
    std::int32_t index = 0;
    std::int32_t blocks_before = schedule.key_blocks();
    for (std::int32_t row_tile = row_tiles(schedule) - 1; row_tile >= 0; --row_tile) {
      for (std::int32_t line = 0; line < lines; ++line, ++index) {
        const AttentionTile tile = schedule.tile(index);
        ASSERT_EQ(tile.row, row_tile * schedule.tiling().tile_rows) << "tile " << index;
        ASSERT_EQ(line_of(schedule, tile), line) << "tile " << index;
        ASSERT_LE(tile.block_end, blocks_before) << "tile " << index;
        blocks_before = tile.block_end;
      }
    }
    ASSERT_EQ(index, schedule.tiles());
  });
}

attention::Problem problem_of(std::int64_t rows, attention::Destination destination, int world) {
  attention::Problem problem;
  problem.sequences = 2;
  problem.rows = rows;
  problem.keys = rows;
  problem.heads = 3 * world;
  problem.kv_heads = 3 * world;
  problem.destination = destination;
  return problem;
}

/// Row with which each head begins; -1 if not all begin with the same.
std::int32_t first_row(const AttentionSchedule& schedule) {
  std::set<std::int32_t> rows;
  for (std::int32_t index = 0; index < schedule.tiles(); index += row_tiles(schedule)) {
    rows.insert(schedule.tile(index).row);
  }
  return rows.size() == 1 ? *rows.begin() : -1;
}

TEST(AttentionSchedule, EveryHeadBeginsWithTheRowsOfTheNextRank) {
  Random random(6);
  for (int round = 0; round < 300; ++round) {
    const int world = random.between(1, 8);
    const int rank = random.between(0, world - 1);
    const std::int64_t rows = random.between(1, round % 4 == 0 ? 20 : 9000);
    for (const auto destination : {attention::Destination::to_owners, attention::Destination::twin}) {
      const AttentionSchedule schedule = attention::make_schedule(problem_of(rows, destination, world), rank, world);
      const std::int64_t begin = attention::row_range(rows, (rank + 1) % world, world).begin;
      const std::int64_t wanted = std::min(begin, rows - 1);  // a rank without rows begins behind the last one
      const std::int32_t first = first_row(schedule);
      ASSERT_TRUE(first >= 0 && first <= wanted && wanted < first + attention::tile_rows)
          << rows << " rows, rank " << rank << " of " << world << ": begins with row " << first
          << " instead of that of " << wanted;
      ASSERT_NO_FATAL_FAILURE(expect_every_tile_once(schedule));
    }
    const attention::Problem local = problem_of(rows, attention::Destination::local, world);
    ASSERT_EQ(first_row(attention::make_schedule(local, rank, world)), 0);
  }
}

/// Ranks that keep step never store to the same one, where tiles and shares of the rows match.
TEST(AttentionSchedule, RanksInStepStoreToDifferentOwners) {
  for (int world = 1; world <= max_world; ++world) {
    const std::int64_t share = std::int64_t{2} * attention::tile_rows;
    const attention::Problem problem = problem_of(share * world, attention::Destination::to_owners, world);
    const std::int32_t tiles = attention::make_schedule(problem, 0, world).tiles();
    for (std::int32_t index = 0; index < tiles; ++index) {
      std::set<std::int64_t> owners;
      for (int rank = 0; rank < world; ++rank) {
        owners.insert(attention::make_schedule(problem, rank, world).tile(index).row / share);
      }
      ASSERT_EQ(owners.size(), static_cast<std::size_t>(world)) << "tile " << index;
    }
  }
}

}  // namespace
}  // namespace xstage
