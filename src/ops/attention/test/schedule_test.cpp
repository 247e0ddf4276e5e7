// Which tile comes next: every tile once, with the key blocks that its rows see, in the order that the schedule states.

#include "ops/attention/schedule.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <tuple>
#include <utility>

#include "ops/attention/problem.hpp"

namespace xstage::schedule_test {
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
  tiling.own_row_tiles = random.between(0, 1) * random.between(0, divide_up(shape.rows, tiling.tile_rows));
  tiling.step_rows = 64;
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
                            << tiling.block_keys << " keys, from " << tiling.first_row_tile << ", the last "
                            << tiling.own_row_tiles << " later";
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

/// Causal tiles end with the last step of 64 rows, so that the first one may begin before row 0; others begin with it.
std::int32_t first_row(const AttentionSchedule& schedule) {
  const std::int32_t rows = divide_up(schedule.shape().rows, 64) * 64;
  return schedule.shape().causal != 0 ? rows - row_tiles(schedule) * schedule.tiling().tile_rows : 0;
}

/// Each row of each head of each sequence, and no tile without rows.
void expect_every_tile_once(const AttentionSchedule& schedule) {
  const AttentionShape& shape = schedule.shape();
  std::map<std::tuple<int, int, int>, int> taken;
  for (std::int32_t index = 0; index < schedule.tiles(); ++index) {
    const AttentionTile tile = schedule.tile(index);
    ASSERT_TRUE(tile.row + schedule.tiling().tile_rows > 0 && tile.row < shape.rows)
        << "tile " << index << " begins with row " << tile.row;
    ASSERT_EQ((tile.row - first_row(schedule)) % schedule.tiling().tile_rows, 0);
    ASSERT_TRUE(tile.head >= 0 && tile.head < shape.heads) << tile.head;
    ASSERT_TRUE(tile.sequence >= 0 && tile.sequence < shape.sequences) << tile.sequence;
    ASSERT_EQ(tile.key_head, tile.head / shape.group);
    taken[{tile.sequence, tile.head, (tile.row - first_row(schedule)) / schedule.tiling().tile_rows}] += 1;
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

/// Heads in their order, each from the first row tile on and round to it, but for the own ones; then those of all
/// heads.
TEST(AttentionSchedule, FullTilesOfAHeadAreNeighboursAndTheOwnOnesComeLast) {
  for_random_schedules(4, false, [](const AttentionSchedule& schedule) {
    const std::int32_t others = row_tiles(schedule) - schedule.tiling().own_row_tiles;
    std::int32_t index = 0;
    const auto expect_steps = [&](std::int32_t begin, std::int32_t end) {
      for (std::int32_t line = 0; line < schedule.shape().sequences * schedule.shape().heads; ++line) {
        for (std::int32_t step = begin; step < end; ++step, ++index) {
          const AttentionTile tile = schedule.tile(index);
          const std::int32_t row_tile = (schedule.tiling().first_row_tile + step) % row_tiles(schedule);
          ASSERT_EQ(line_of(schedule, tile), line) << "tile " << index;
          ASSERT_EQ(tile.row, row_tile * schedule.tiling().tile_rows) << "tile " << index;
        }
      }
    };
    expect_steps(0, others);
    expect_steps(others, row_tiles(schedule));
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
        ASSERT_EQ(tile.row, first_row(schedule) + row_tile * schedule.tiling().tile_rows) << "tile " << index;
        ASSERT_EQ(line_of(schedule, tile), line) << "tile " << index;
        ASSERT_LE(tile.block_end, blocks_before) << "tile " << index;
        blocks_before = tile.block_end;
      }
    }
    ASSERT_EQ(index, schedule.tiles());
  });
}

/// Largest number of blocks of one CTA, if each CTA takes the next tile when it has finished one.
std::int32_t most_blocks(const AttentionSchedule& schedule, std::int32_t ctas) {
  std::multiset<std::int32_t> busy_until;
  for (std::int32_t index = 0; index < schedule.tiles(); ++index) {
    const std::int32_t blocks = schedule.tile(index).block_end;
    if (index < ctas) {
      busy_until.insert(blocks);
    } else {
      busy_until.insert(busy_until.extract(busy_until.begin()).value() + blocks);
    }
  }
  return *busy_until.rbegin();
}

/// 12 heads on 132 CTAs: at most a block more than the mean of all. Tiles that began with row 0 would take 2, 2 and 6
/// blocks more than these: their last ones, of 64 or 128 rows, see as many keys as a full one.
TEST(AttentionSchedule, CausalTilesKeepAllCtasBusy) {
  for (const auto& [rows, blocks] : {std::pair{4096, 33}, {8192, 128}, {16384, 506}}) {
    attention::Problem problem;
    problem.rows = rows;
    problem.keys = rows;
    problem.heads = 12;
    problem.kv_heads = 12;
    problem.causal = true;
    EXPECT_LE(most_blocks(attention::make_schedule(problem, 0, 1), 132), blocks) << rows << " rows";
  }
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

std::int64_t row_end(const AttentionSchedule& schedule, const AttentionTile& tile) {
  return std::min(tile.row + schedule.tiling().tile_rows, schedule.shape().rows);
}

/// Tiles of which all rows are the rank's come behind all others.
void expect_own_rows_last(const AttentionSchedule& schedule, const attention::RowRange& own) {
  bool before = false;
  for (std::int32_t index = 0; index < schedule.tiles(); ++index) {
    const AttentionTile tile = schedule.tile(index);
    const bool is_own = tile.row >= own.begin && row_end(schedule, tile) <= own.begin + own.count;
    ASSERT_TRUE(is_own || !before) << "tile " << index << " with row " << tile.row << " behind own ones";
    // With a single rank no tiles are marked as own ones.
    ASSERT_EQ(is_own && schedule.tiling().own_row_tiles > 0, index >= schedule.first_own_tile())
        << "tile " << index << " with row " << tile.row;
    before = is_own;
  }
}

/// A tile that comes first of its head holds the first row of the next rank.
void expect_next_rank_first(const AttentionSchedule& schedule, const attention::RowRange& next) {
  std::set<std::int32_t> begun;
  for (std::int32_t index = 0; index < schedule.tiles(); ++index) {
    const AttentionTile tile = schedule.tile(index);
    if (begun.insert(line_of(schedule, tile)).second) {
      ASSERT_TRUE(tile.row <= next.begin && next.begin < row_end(schedule, tile))
          << "line " << line_of(schedule, tile) << " begins with row " << tile.row << ", not " << next.begin;
    }
  }
}

template <typename Check>
void for_random_ranks(std::uint32_t seed, attention::Destination destination, Check&& check) {
  Random random(seed);
  for (int round = 0; round < 500 && !testing::Test::HasFailure(); ++round) {
    const int world = random.between(1, max_world);
    const int rank = random.between(0, world - 1);
    const std::int64_t rows = round % 4 == 0   ? random.between(1, 60)
                              : round % 4 == 1 ? random.between(1, 40) * attention::tile_rows
                                               : random.between(1, 9000);
    SCOPED_TRACE(testing::Message() << rows << " rows, rank " << rank << " of " << world);
    check(attention::make_schedule(problem_of(rows, destination, world), rank, world), rank, world);
  }
}

TEST(AttentionSchedule, RowsOfTheNextRankComeFirstAndOwnOnesLast) {
  for (const auto destination : {attention::Destination::to_owners, attention::Destination::twin}) {
    for_random_ranks(6, destination, [](const AttentionSchedule& schedule, int rank, int world) {
      const std::int64_t rows = schedule.shape().rows;
      const attention::RowRange next = attention::row_range(rows, (rank + 1) % world, world);
      if (next.count > 0) {
        ASSERT_NO_FATAL_FAILURE(expect_next_rank_first(schedule, next));
      }
      ASSERT_NO_FATAL_FAILURE(expect_own_rows_last(schedule, attention::row_range(rows, rank, world)));
      ASSERT_NO_FATAL_FAILURE(expect_every_tile_once(schedule));
    });
  }
}

TEST(AttentionSchedule, LocalRowsComeInTheirOrder) {
  for_random_ranks(7, attention::Destination::local, [](const AttentionSchedule& schedule, int, int) {
    for (std::int32_t index = 0; index < schedule.tiles(); ++index) {
      ASSERT_EQ(schedule.tile(index).row, index % row_tiles(schedule) * attention::tile_rows) << "tile " << index;
    }
  });
}

/// Ranks in step never store to the same peer, where tiles coincide with the rows of a rank.
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
}  // namespace xstage::schedule_test
