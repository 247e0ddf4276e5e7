// Partial sums and heads on their way to the peers: every slot is filled once, every flag has one sender, and an owner
// waits for exactly those that are raised.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "ops/gemm/layout.hpp"
#include "ops/gemm/test/layout_world.hpp"

namespace xstage::gemm::layout_reductions_test {
namespace {

using kernels::GemmRegionTarget;
using schedule::GemmRegion;
using schedule::GemmTile;

/// Shape of the sums that an owner adds up from slots: its rows in a reduce-scatter, its columns in an all-reduce.
MatrixShape slot_shape(const World& world, int owner) {
  const Problem& problem = world.problem();
  if (problem.operation == Operation::reduce_scatter) {
    return {world.rows_of(owner).count, problem.n};
  }
  return {problem.m, world.columns_of(owner).count};
}

TEST(GemmLayout, SlotsOfDifferentSourcesAreApartAndEachIsFilled) {
  for_random_worlds({Operation::reduce_scatter, Operation::all_reduce}, [](const World& world) {
    if (world.exchanges()) {
      return;  // no slots
    }
    for (int owner = 0; owner < world.cell.ranks; ++owner) {
      const Layout& layout = world.of(owner);
      const MatrixShape slot = slot_shape(world, owner);
      ASSERT_EQ(layout.slots.rows, layout.slot_rows * (world.cell.ranks - 1));
      ASSERT_LE(slot.rows, layout.slot_rows);
      ASSERT_EQ(layout.slot_columns, slot.columns);
      std::set<int> sources;
      for (int source = 0; source < world.cell.ranks; ++source) {
        for (const OutputTarget& output : world.of(source).outputs) {
          if (output.place != Place::slot || output.rank != owner) {
            continue;
          }
          EXPECT_TRUE(sources.insert(source).second);
          // The place from which the owner reads the partial sums of this source.
          EXPECT_EQ(output.row_begin, layout.slot_rows * (source < owner ? source : source - 1));
          EXPECT_EQ(output.shape.rows, slot.rows);
          EXPECT_EQ(output.shape.columns, slot.columns);
          EXPECT_EQ(output.column_begin, 0);
          EXPECT_EQ(output.pitch, 0);
        }
      }
      EXPECT_EQ(sources.size(), static_cast<std::size_t>(world.cell.ranks - 1));
      EXPECT_EQ(sources.count(owner), 0U);
    }
  });
}

TEST(GemmLayout, PeersComeFirstRotatedAndTheOwnRegionLast) {
  for_random_worlds({Operation::reduce_scatter, Operation::all_reduce, Operation::all_to_all}, [](const World& world) {
    if (world.exchanges()) {
      return;  // one region, which goes to all
    }
    const int ranks = world.cell.ranks;
    const std::size_t parts = std::max<std::size_t>(world.problem().parts.size(), 1);
    for (std::size_t region = 0; region < static_cast<std::size_t>(ranks) * parts; ++region) {
      std::set<int> destinations;
      for (int rank = 0; rank < ranks; ++rank) {
        const GemmRegionTarget& target = world.of(rank).targets.at(region);
        const int destination = (rank + static_cast<int>(region / parts) + 1) % ranks;
        destinations.insert(destination);
        const bool last = region / parts + 1 == static_cast<std::size_t>(ranks);
        const bool reduces = world.problem().operation != Operation::all_to_all;
        EXPECT_EQ(target.signal_rank, reduces && last ? -1 : destination);
        EXPECT_EQ(target.reduce != 0, reduces && last && ranks > 1);
        EXPECT_EQ(target.raw != 0, reduces && !last);  // bias and activation belong to the full sum
      }
      EXPECT_EQ(destinations.size(), static_cast<std::size_t>(ranks)) << "two ranks store to one peer at once";
    }
  });
}

/// Expects that the sum goes only to this rank's own output.
void expect_sum_at_home(const World& world, int rank, std::int32_t index) {
  const Layout& layout = world.of(rank);
  const OutputTarget& sum = layout.outputs.at(static_cast<std::size_t>(index));
  EXPECT_EQ(sum.place, Place::symmetric);
  EXPECT_EQ(sum.rank, rank);
  EXPECT_EQ(sum.shape.rows, world.problem().m);
  EXPECT_EQ(sum.shape.columns, world.problem().n);
  EXPECT_FALSE(layout.targets_remote(static_cast<std::size_t>(index)));
}

World all_reduce_in_one_shot(std::int64_t rows, std::int64_t columns, int tile_columns, int ranks) {
  Problem problem;
  problem.operation = Operation::all_reduce;
  problem.m = rows;
  problem.n = columns;
  problem.k = std::int64_t{64} * ranks;
  Plan plan;
  plan.all_reduce = AllReduceAlgorithm::one_shot;
  plan.tile_columns = tile_columns;
  return make_world(problem, plan, ranks);
}

/// The kernel exchanges bf16 in the heap: two calls' worth of half tiles of 64 rows from every rank.
TEST(GemmLayout, AnExchangeNeedsNeitherSlotsNorFlagsAndEndsAtHome) {
  for (int ranks = 2; ranks <= max_world; ++ranks) {
    for (const auto& [rows, halves] : {std::pair{1, 2}, std::pair{64, 2}, std::pair{129, 4}}) {
      for (const auto& [columns, width] : {std::pair{8, 64}, std::pair{72, 64}, std::pair{4096, 128}}) {
        const World world = all_reduce_in_one_shot(rows, columns, width, ranks);
        SCOPED_TRACE(world.text());
        for (int rank = 0; rank < ranks; ++rank) {
          const Layout& layout = world.of(rank);
          ASSERT_EQ(layout.targets.size(), 1U);
          const GemmRegionTarget& target = layout.targets[0];
          EXPECT_EQ(target.exchange, 1);
          EXPECT_EQ(target.reduce, 0);
          EXPECT_EQ(target.raw, 0);
          EXPECT_EQ(target.remote, 0);
          EXPECT_EQ(target.signal_rank, -1);
          EXPECT_EQ(target.output_copies, 1);
          ASSERT_EQ(layout.outputs.size(), 1U);
          expect_sum_at_home(world, rank, target.output_map);
          EXPECT_EQ(layout.slots.rows, 0);
          EXPECT_EQ(layout.tile_flags, 0);
          EXPECT_FALSE(layout.plain);
          const std::int64_t half_tiles = std::int64_t{halves} * ((columns + width - 1) / width);
          EXPECT_EQ(layout.exchange_half_tiles, half_tiles);
          EXPECT_EQ(layout.exchange_bytes, 2 * ranks * half_tiles * 64 * width * 2);
        }
      }
    }
  }
}

/// As in the kernels, for half a tile of 64 rows.
std::int64_t half_tile(const Layout& layout, const GemmTile& tile, int half) {
  const std::int32_t width = layout.schedule.tiling().tile_columns;
  const std::int32_t columns = (layout.schedule.region(tile.region).columns + width - 1) / width;
  return std::int64_t{tile.row / 64 + half} * columns + tile.column / width;
}

template <typename Visit>
void for_each_half_tile(const Layout& layout, Visit&& visit) {
  const schedule::GemmTiling& tiling = layout.schedule.tiling();
  for (std::int32_t index = 0; index < layout.schedule.cluster_tiles(); ++index) {
    for (int cta = 0; cta < tiling.cluster_rows * tiling.cluster_columns; ++cta) {
      const GemmTile tile = layout.schedule.tile(index, cta);
      for (int half = 0; half < 2 && tile.inside; ++half) {
        visit(tile, layout.targets[static_cast<std::size_t>(tile.region)], half_tile(layout, tile, half));
      }
    }
  }
}

using FlagsBySource = std::map<int, std::multiset<std::int64_t>>;

/// Flags of `owner` that each source raises.
FlagsBySource raised_flags(const World& world, int owner) {
  FlagsBySource flags;
  for (int source = 0; source < world.cell.ranks; ++source) {
    for_each_half_tile(world.of(source), [&](const GemmTile&, const GemmRegionTarget& target, std::int64_t flag) {
      if (target.signal_rank == owner) {
        flags[source].insert(target.signal_begin + flag);
      }
    });
  }
  return flags;
}

/// Flags of `owner` that its kernel waits for before it adds up, as the kernel numbers them.
FlagsBySource awaited_flags(const World& world, int owner) {
  FlagsBySource flags;
  const Layout& layout = world.of(owner);
  const std::int32_t width = layout.schedule.tiling().tile_columns;
  for_each_half_tile(layout, [&](const GemmTile& tile, const GemmRegionTarget& target, std::int64_t flag) {
    const GemmRegion& region = layout.schedule.region(tile.region);
    const std::int64_t flags_each =
        std::int64_t{(region.rows + 127) / 128 * 2} * ((region.columns + width - 1) / width);
    for (int peer = 0; peer < world.cell.ranks && target.reduce != 0; ++peer) {
      if (peer != owner) {
        flags[peer].insert(peer * flags_each + flag);
      }
    }
  });
  return flags;
}

TEST(GemmLayout, OwnersWaitForExactlyTheFlagsThatSourcesRaise) {
  for_random_worlds({Operation::reduce_scatter, Operation::all_reduce}, [](const World& world) {
    for (int owner = 0; owner < world.cell.ranks; ++owner) {
      EXPECT_EQ(raised_flags(world, owner), awaited_flags(world, owner)) << "owner " << owner;
    }
  });
}

TEST(GemmLayout, EveryFlagHasOneSenderAndLiesInThePad) {
  for_random_worlds({Operation::reduce_scatter, Operation::all_reduce, Operation::all_to_all}, [](const World& world) {
    for (int owner = 0; owner < world.cell.ranks; ++owner) {
      std::set<std::int64_t> seen;
      for (const auto& [source, flags] : raised_flags(world, owner)) {
        for (const std::int64_t flag : flags) {
          EXPECT_TRUE(seen.insert(flag).second) << "flag " << flag << " of rank " << owner << " again, by " << source;
          EXPECT_GE(flag, 0);
          EXPECT_LT(flag, world.of(owner).tile_flags);
        }
      }
    }
  });
}

TEST(GemmLayout, Fp32PartialSumsTakeTwiceTheSlots) {
  for (const Operation operation : {Operation::reduce_scatter, Operation::all_reduce}) {
    Problem problem;
    problem.operation = operation;
    problem.m = 1024;
    problem.n = 512;
    problem.k = 256;
    const Plan plan = make_plan(problem, 2, 132);
    const Layout half = make_layout(problem, plan, 0, 2);
    const std::size_t bytes = heap_bytes(problem, plan, 2);
    problem.fp32_partials = true;
    const Layout full = make_layout(problem, plan, 0, 2);
    EXPECT_EQ(half.slot_element_bytes, 2);
    EXPECT_EQ(full.slot_element_bytes, 4);
    EXPECT_EQ(full.slots.rows, half.slots.rows);
    EXPECT_EQ(heap_bytes(problem, plan, 2) - bytes, static_cast<std::size_t>(half.slots.rows * half.slots.columns * 2));
    for (std::size_t region = 0; region < full.targets.size(); ++region) {
      EXPECT_EQ(full.targets[region].wide, full.targets[region].raw | full.targets[region].reduce);
      EXPECT_EQ(half.targets[region].wide, 0);
    }
  }
}

}  // namespace
}  // namespace xstage::gemm::layout_reductions_test
