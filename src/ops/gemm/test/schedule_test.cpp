// The order of tiles: every tile comes once, in the order of the regions, and no order of events makes ranks that wait
// for each other's tiles wait for ever.

#include "ops/gemm/schedule.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

#include "ops/gemm/layout.hpp"

namespace xstage::schedule_test {
namespace {

using schedule::GemmRegion;
using schedule::GemmSchedule;
using schedule::GemmTile;
using schedule::GemmTiling;

class Random {
 public:
  explicit Random(std::uint32_t seed) : bits_(seed) {}
  int between(int least, int most) {
    return least + static_cast<int>(bits_() % static_cast<std::uint32_t>(most - least + 1));
  }
  std::mt19937& bits() { return bits_; }

 private:
  std::mt19937 bits_;
};

struct Cluster {
  int rows;
  int columns;
};
constexpr Cluster cluster_shapes[] = {{1, 1}, {2, 1}, {1, 2}};

GemmSchedule random_schedule(Random& random, const Cluster& cluster, int group_rows, int regions) {
  GemmSchedule schedule{};
  schedule.start({128, 64 << random.between(0, 2), cluster.rows, cluster.columns, group_rows});
  for (int region = 0; region < regions; ++region) {
    const bool empty = random.between(0, 7) == 0;  // a rank without rows
    schedule.add_region(empty ? 0 : random.between(1, 2500), random.between(1, 1500));
  }
  return schedule;
}

std::int32_t divide_up(std::int32_t value, std::int32_t by) { return (value + by - 1) / by; }

void expect_every_tile_once(const GemmSchedule& schedule) {
  const GemmTiling& tiling = schedule.tiling();
  std::map<std::tuple<int, int, int>, int> taken;
  for (std::int32_t index = 0; index < schedule.cluster_tiles(); ++index) {
    int inside = 0;
    for (std::int32_t cta = 0; cta < tiling.cluster_rows * tiling.cluster_columns; ++cta) {
      const GemmTile tile = schedule.tile(index, cta);
      ASSERT_LT(tile.region, schedule.regions());
      const GemmRegion& region = schedule.region(tile.region);
      ASSERT_EQ(tile.row % tiling.tile_rows, 0);
      ASSERT_EQ(tile.column % tiling.tile_columns, 0);
      ASSERT_EQ(tile.inside, tile.row < region.rows && tile.column < region.columns);
      inside += tile.inside ? 1 : 0;
      taken[{tile.region, tile.row, tile.column}] += tile.inside ? 1 : 0;
    }
    ASSERT_GE(inside, 1) << "cluster tile " << index << " has nothing to do";
  }
  for (std::int32_t index = 0; index < schedule.regions(); ++index) {
    const GemmRegion& region = schedule.region(index);
    for (std::int32_t row = 0; row < region.rows; row += tiling.tile_rows) {
      for (std::int32_t column = 0; column < region.columns; column += tiling.tile_columns) {
        ASSERT_EQ((taken[{index, row, column}]), 1) << "region " << index << " tile " << row << ", " << column;
      }
    }
  }
}

TEST(GemmSchedule, EveryTileOfEveryRegionOnce) {
  Random random(1);
  for (const Cluster& cluster : cluster_shapes) {
    for (int group_rows = 1; group_rows <= 16; ++group_rows) {
      for (int regions = 1; regions <= 8; ++regions) {
        SCOPED_TRACE(testing::Message() << "cluster " << cluster.rows << "x" << cluster.columns << ", groups of "
                                        << group_rows << ", " << regions << " regions");
        expect_every_tile_once(random_schedule(random, cluster, group_rows, regions));
        ASSERT_FALSE(testing::Test::HasFatalFailure());
      }
    }
  }
}

TEST(GemmSchedule, AsManyRegionsAsThereIsRoomFor) {
  Random random(2);
  expect_every_tile_once(random_schedule(random, {2, 1}, 3, schedule::max_regions));
}

TEST(GemmSchedule, EmptyRegionsTakeNoTime) {
  GemmSchedule schedule{};
  schedule.start({128, 256, 2, 1, 8});
  schedule.add_region(0, 512);
  EXPECT_EQ(schedule.cluster_tiles(), 0);
  schedule.add_region(1, 8);
  schedule.add_region(0, 512);
  EXPECT_EQ(schedule.cluster_tiles(), 1);
  EXPECT_EQ(schedule.tile(0, 0).region, 1);
  EXPECT_TRUE(schedule.tile(0, 0).inside);
  EXPECT_FALSE(schedule.tile(0, 1).inside);
}

TEST(GemmSchedule, RegionsAreWorkedOffInTheirOrder) {
  Random random(3);
  for (const Cluster& cluster : cluster_shapes) {
    const GemmSchedule schedule = random_schedule(random, cluster, 5, 8);
    std::int32_t before = 0;
    for (std::int32_t index = 0; index < schedule.cluster_tiles(); ++index) {
      const std::int32_t region = schedule.tile(index, 0).region;
      EXPECT_GE(region, before);
      before = region;
    }
  }
}

TEST(GemmSchedule, RowsAreFastestInAGroup) {
  GemmSchedule schedule{};
  schedule.start({128, 128, 1, 1, 4});
  schedule.add_region(6 * 128, 3 * 128);  // a group of four rows of tiles and one of two
  const std::vector<std::pair<int, int>> expected{{0, 0}, {1, 0}, {2, 0}, {3, 0}, {0, 1}, {1, 1},
                                                  {2, 1}, {3, 1}, {0, 2}, {1, 2}, {2, 2}, {3, 2},
                                                  {4, 0}, {5, 0}, {4, 1}, {5, 1}, {4, 2}, {5, 2}};
  ASSERT_EQ(schedule.cluster_tiles(), 18);
  for (std::int32_t index = 0; index < 18; ++index) {
    const GemmTile tile = schedule.tile(index, 0);
    EXPECT_EQ(std::pair(tile.row / 128, tile.column / 128), expected[static_cast<std::size_t>(index)]) << index;
  }
}

TEST(GemmSchedule, DealtRoundRobinEveryClusterTileHasOneCluster) {
  Random random(4);
  const GemmSchedule schedule = random_schedule(random, {2, 1}, 7, 5);
  for (std::int32_t clusters = 1; clusters <= 200; ++clusters) {
    std::vector<int> taken(static_cast<std::size_t>(schedule.cluster_tiles()), 0);
    for (std::int32_t cluster = 0; cluster < clusters; ++cluster) {
      for (std::int32_t index = cluster; index < schedule.cluster_tiles(); index += clusters) {
        ++taken[static_cast<std::size_t>(index)];
      }
    }
    EXPECT_TRUE(std::all_of(taken.begin(), taken.end(), [](int times) { return times == 1; })) << clusters;
  }
}

// ---- no deadlock
// -----------------------------------------------------------------------------------------------------

/// As in the kernels, for half a tile of 64 rows.
std::int64_t half_tile(const GemmSchedule& schedule, const GemmTile& tile, int half) {
  const std::int32_t columns = divide_up(schedule.region(tile.region).columns, schedule.tiling().tile_columns);
  return std::int64_t{tile.row / 64 + half} * columns + tile.column / schedule.tiling().tile_columns;
}

/// The ranks of a reduction, modelled by their dependencies only, and stricter than the kernel: a cluster finishes a
/// tile completely before it begins the next, and an owner's tile needs all flags of all of its CTAs at once.
class ReductionRun {
 public:
  ReductionRun(const gemm::Problem& problem, const Plan& plan, int world, int clusters) : clusters_(clusters) {
    for (int rank = 0; rank < world; ++rank) {
      layouts_.push_back(gemm::make_layout(problem, plan, rank, world));
      // The data of an exchange are their own flags, as many from each source as there are half tiles.
      arrived_.emplace_back(
          static_cast<std::size_t>(layouts_.back().tile_flags + world * layouts_.back().exchange_half_tiles), false);
      for (int cluster = 0; cluster < clusters; ++cluster) {
        next_.push_back(cluster);
      }
    }
  }

  [[nodiscard]] std::size_t workers() const { return next_.size(); }
  [[nodiscard]] int rank_of(std::size_t worker) const { return static_cast<int>(worker) / clusters_; }

  [[nodiscard]] bool finished(std::size_t worker) const {
    return next_[worker] >= layout_of(worker).schedule.cluster_tiles();
  }

  /// One tile of this cluster; false if it has to wait. In an exchange the own partial sums leave before that.
  bool step(std::size_t worker) {
    signal_all(worker, true);
    const gemm::Layout& layout = layout_of(worker);
    for (int cta = 0; cta < ctas(layout); ++cta) {
      const GemmTile tile = layout.schedule.tile(next_[worker], cta);
      const kernels::GemmRegionTarget& target = layout.targets[static_cast<std::size_t>(tile.region)];
      if (tile.inside && (target.reduce != 0 || target.exchange != 0) &&
          !partials_are_here(layout, tile, rank_of(worker))) {
        return false;
      }
    }
    signal_all(worker, false);
    next_[worker] += clusters_;
    return true;
  }

 private:
  [[nodiscard]] const gemm::Layout& layout_of(std::size_t worker) const {
    return layouts_[static_cast<std::size_t>(rank_of(worker))];
  }

  [[nodiscard]] bool partials_are_here(const gemm::Layout& layout, const GemmTile& tile, int rank) const {
    const GemmRegion& region = layout.schedule.region(tile.region);
    const std::int64_t flags_each = std::int64_t{divide_up(region.rows, 128) * 2} *
                                    divide_up(region.columns, layout.schedule.tiling().tile_columns);
    for (std::int64_t peer = 0; peer < static_cast<std::int64_t>(layouts_.size()); ++peer) {
      for (int half = 0; half < 2 && peer != rank; ++half) {
        const std::int64_t flag = peer * flags_each + half_tile(layout.schedule, tile, half);
        if (!arrived_[static_cast<std::size_t>(rank)][static_cast<std::size_t>(flag)]) {
          return false;
        }
      }
    }
    return true;
  }

  static int ctas(const gemm::Layout& layout) {
    return layout.schedule.tiling().cluster_rows * layout.schedule.tiling().cluster_columns;
  }

  void signal_all(std::size_t worker, bool of_exchange) {
    const gemm::Layout& layout = layout_of(worker);
    for (int cta = 0; cta < ctas(layout); ++cta) {
      const GemmTile tile = layout.schedule.tile(next_[worker], cta);
      const kernels::GemmRegionTarget& target = layout.targets[static_cast<std::size_t>(tile.region)];
      for (int peer = 0; peer < static_cast<int>(layouts_.size()) && tile.inside; ++peer) {
        const bool told = of_exchange ? target.exchange != 0 && peer != rank_of(worker) : target.signal_rank == peer;
        for (int half = 0; half < 2 && told; ++half) {
          const std::int64_t begin = of_exchange ? rank_of(worker) * layout.exchange_half_tiles : target.signal_begin;
          const std::int64_t flag = begin + half_tile(layout.schedule, tile, half);
          arrived_[static_cast<std::size_t>(peer)][static_cast<std::size_t>(flag)] = true;
        }
      }
    }
  }

  int clusters_;
  std::vector<gemm::Layout> layouts_;
  std::vector<std::vector<bool>> arrived_;  // [rank][flag]
  std::vector<std::int32_t> next_;          // [rank, cluster]
};

/// Runs clusters in random order and for random times. The adversary holds one rank back for as long as any other can
/// move. True if all finish.
bool finishes(ReductionRun& run, Random& random, int held_rank) {
  std::vector<std::size_t> order(run.workers());
  std::iota(order.begin(), order.end(), std::size_t{0});
  while (true) {
    std::shuffle(order.begin(), order.end(), random.bits());
    bool moved = false;
    bool left = false;
    for (const bool held : {false, true}) {
      for (const std::size_t worker : order) {
        if ((run.rank_of(worker) == held_rank) != held || (held && moved)) {
          continue;
        }
        for (int steps = random.between(1, 4); steps > 0 && !run.finished(worker) && run.step(worker); --steps) {
          moved = true;
        }
      }
    }
    for (std::size_t worker = 0; worker < run.workers(); ++worker) {
      left = left || !run.finished(worker);
    }
    if (!left || !moved) {
      return !left;
    }
  }
}

TEST(GemmSchedule, ReductionsEndForEveryNumberOfClusters) {
  Random random(5);
  for (const gemm::Operation operation : {gemm::Operation::reduce_scatter, gemm::Operation::all_reduce}) {
    for (int clusters = 1; clusters <= 200; ++clusters) {
      const int world = random.between(2, 8);
      gemm::Problem problem;
      problem.operation = operation;
      problem.m = clusters % 3 == 0 ? random.between(1, world) : random.between(1, 1500);
      problem.n = 8 * random.between(1, 120);
      problem.k = 8 * world;
      Plan plan;
      plan.tile_columns = 64 << random.between(0, 2);
      plan.group_rows = random.between(1, 8);
      plan.all_reduce = random.between(0, 1) == 0 ? AllReduceAlgorithm::one_shot : AllReduceAlgorithm::two_shot;
      if (operation == gemm::Operation::all_reduce && plan.all_reduce == AllReduceAlgorithm::one_shot) {
        plan.tile_columns = 128;  // not 256
      }
      const Cluster cluster = cluster_shapes[random.between(0, 2)];
      plan.cluster_rows = cluster.rows;
      plan.cluster_columns = cluster.columns;
      plan = gemm::complete_plan(problem, plan, world, 132);
      ReductionRun run(problem, plan, world, clusters);
      EXPECT_TRUE(finishes(run, random, random.between(0, world - 1)))
          << gemm::statement(problem, plan) << " on " << world << " ranks of " << clusters << " clusters";
    }
  }
}

}  // namespace
}  // namespace xstage::schedule_test
