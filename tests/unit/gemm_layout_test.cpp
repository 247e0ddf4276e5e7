// What the host tells each rank's kernel, against a second statement of what the operations compute
// (bench/sampled_result): every element has one source, every flag one sender, and nothing lies outside of its buffer.

#include "gemm/layout.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "bench/sampled_result.hpp"
#include "memory/offset_allocator.hpp"

namespace xstage::gemm {
namespace {

using bench::GemmCell;
using bench::Product;
using kernels::GemmRegionTarget;
using schedule::GemmRegion;
using schedule::GemmTile;

constexpr Operation operations[] = {Operation::gemm, Operation::reduce_scatter, Operation::all_gather,
                                    Operation::all_reduce, Operation::all_to_all};

class Random {
 public:
  int between(int least, int most) {
    return least + static_cast<int>(bits_() % static_cast<std::uint32_t>(most - least + 1));
  }

 private:
  std::mt19937 bits_{7};
};

/// A problem, its plan, and the layouts of all ranks.
struct World {
  GemmCell cell;
  Plan plan;
  std::vector<Layout> layouts;

  [[nodiscard]] const Problem& problem() const { return cell.problem; }
  [[nodiscard]] const Layout& of(int rank) const { return layouts[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] RowRange rows_of(int rank) const { return row_range(cell.problem.m, rank, cell.ranks); }
  /// All-reduce in one shot: every rank adds up everything.
  [[nodiscard]] bool exchanges() const {
    return cell.problem.operation == Operation::all_reduce && plan.all_reduce == AllReduceAlgorithm::one_shot &&
           cell.ranks > 1;
  }
  [[nodiscard]] std::string text() const {
    return statement(cell.problem, plan) + " on " + std::to_string(cell.ranks) + " ranks";
  }
};

Problem random_problem(Operation operation, int world, Random& random) {
  Problem problem;
  problem.operation = operation;
  // Ranks without rows; odd numbers of them; the last rank with a row of tiles less than the others.
  const int kind = random.between(0, 2);
  problem.m = kind == 0   ? random.between(1, 2 * world)
              : kind == 1 ? 2 * random.between(0, 300) + 1
                          : 129 * world - random.between(0, world - 1);
  problem.n = 8 * world * random.between(1, 12);
  problem.k = 8 * world * random.between(1, 20);
  if (operation == Operation::all_to_all) {
    problem.head_dim = random.between(0, 1) == 0 ? 64 : 128;
    problem.n = 0;
    for (int part = random.between(1, 3); part > 0; --part) {
      problem.parts.push_back({world * random.between(1, 2), part == 1, part > 1});
      problem.n += problem.parts.back().heads * problem.head_dim;
    }
  } else if (operation == Operation::gemm || operation == Operation::all_gather) {
    problem.gated = random.between(0, 2) == 0;
    problem.n *= 2;
  } else {
    problem.n = 8 * random.between(1, 12 * world);  // not even one unit of 8 columns for each rank
  }
  return problem;
}

World random_world(Operation operation, int world, Random& random) {
  World made{{random_problem(operation, world, random), world}, {}, {}};
  const Problem& problem = made.cell.problem;
  check_problem(problem, world);
  made.plan.tile_columns = (problem.gated || operation == Operation::all_to_all ? 128 : 64) << random.between(0, 1);
  made.plan.cluster_rows = random.between(1, 2);
  made.plan.cluster_columns = made.plan.cluster_rows == 2 ? 1 : random.between(1, 2);
  made.plan.chunk_rows = 128 * random.between(1, 2);
  made.plan.chunk_depth = 64 * random.between(0, 3);
  made.plan.all_reduce = random.between(0, 1) == 0 ? AllReduceAlgorithm::one_shot : AllReduceAlgorithm::two_shot;
  made.plan = complete_plan(problem, made.plan, world, 132);
  for (int rank = 0; rank < world; ++rank) {
    made.layouts.push_back(make_layout(problem, made.plan, rank, world));
  }
  return made;
}

/// Runs `test` on random problems of every number of ranks.
template <typename Test>
void for_random_worlds(std::initializer_list<Operation> chosen, Test&& test) {
  Random random;
  for (const Operation operation : chosen) {
    for (int ranks = 1; ranks <= max_world; ++ranks) {
      for (int repetition = 0; repetition < 20; ++repetition) {
        const World world = random_world(operation, operation == Operation::gemm ? 1 : ranks, random);
        SCOPED_TRACE(world.text());
        test(world);
        if (testing::Test::HasFailure()) {
          return;
        }
      }
    }
  }
}

/// How often each element of a matrix is written, in columns of 8.
class Coverage {
 public:
  explicit Coverage(const MatrixShape& shape)
      : columns_(shape.columns / 8), written_(static_cast<std::size_t>(shape.rows * columns_), 0) {}
  void add(std::int64_t row, std::int64_t rows, std::int64_t columns, std::int64_t column = 0) {
    for (std::int64_t unit = 0; unit < rows * (columns / 8); ++unit) {
      const std::int64_t in_row = column / 8 + unit % (columns / 8);
      ASSERT_LT(in_row, columns_);
      ++written_.at(static_cast<std::size_t>((row + unit / (columns / 8)) * columns_ + in_row));
    }
  }
  [[nodiscard]] bool once() const {
    return std::all_of(written_.begin(), written_.end(), [](int times) { return times == 1; });
  }

 private:
  std::int64_t columns_;
  std::vector<int> written_;
};

bool has_result_of_user(Operation operation) {
  return operation != Operation::all_reduce && operation != Operation::all_to_all;
}

TEST(GemmLayout, RegionsCoverTheWholeResult) {
  for_random_worlds(
      {operations[0], operations[1], operations[2], operations[3], operations[4]}, [](const World& world) {
        const int shrink = world.problem().gated ? 2 : 1;
        for (int rank = 0; rank < world.cell.ranks; ++rank) {
          const std::vector<bench::ResultShape> results = result_shapes(world.cell, rank);
          std::vector<Coverage> covered;
          for (const bench::ResultShape& result : results) {
            covered.emplace_back(MatrixShape{result.rows, result.columns / shrink});
          }
          if (has_result_of_user(world.problem().operation)) {
            const Layout& layout = world.of(rank);
            EXPECT_EQ(layout.user_output.rows, results[0].rows);
            EXPECT_EQ(layout.user_output.columns, results[0].columns / shrink);
            for (const LocalOutput& output : layout.local_outputs) {
              covered[0].add(output.row_begin, output.shape.rows, output.shape.columns);
            }
          }
          for (int source = 0; source < world.cell.ranks; ++source) {
            for (const OutputTarget& output : world.of(source).outputs) {
              if (output.place == Place::symmetric && output.rank == rank) {
                covered[static_cast<std::size_t>(output.part)].add(output.row_begin, output.shape.rows,
                                                                   output.shape.columns, output.column_begin);
              }
            }
          }
          EXPECT_TRUE(std::all_of(covered.begin(), covered.end(), [](const Coverage& part) { return part.once(); }))
              << rank;
        }
      });
}

/// Columns of 8 are shared like rows.
RowRange columns_of(const World& world, int rank) {
  const RowRange units = row_range(world.problem().n / 8, rank, world.cell.ranks);
  return {units.begin * 8, units.count * 8};
}

/// What an owner adds up: its rows in a reduce-scatter, its columns in an all-reduce, everything in an exchange.
MatrixShape slot_shape(const World& world, int owner) {
  const Problem& problem = world.problem();
  if (problem.operation == Operation::reduce_scatter) {
    return {world.rows_of(owner).count, problem.n};
  }
  return {problem.m, world.exchanges() ? problem.n : columns_of(world, owner).count};
}

TEST(GemmLayout, SlotsOfDifferentSourcesAreApartAndEachIsFilled) {
  for_random_worlds({Operation::reduce_scatter, Operation::all_reduce}, [](const World& world) {
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
          // Where the owner looks for the partial sums of this source.
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

TEST(GemmLayout, NoTargetLiesOutsideOfItsBuffer) {
  for_random_worlds(
      {operations[0], operations[1], operations[2], operations[3], operations[4]}, [](const World& world) {
        for (int rank = 0; rank < world.cell.ranks; ++rank) {
          const Layout& layout = world.of(rank);
          ASSERT_LE(layout.schedule.regions(), schedule::max_regions);
          ASSERT_LE(layout.outputs.size(), static_cast<std::size_t>(kernels::max_output_maps));
          ASSERT_LE(layout.local_outputs.size(), static_cast<std::size_t>(max_world));
          for (const OutputTarget& output : layout.outputs) {
            const Layout& there = world.of(output.rank);
            const MatrixShape buffer = output.place == Place::slot
                                           ? there.slots
                                           : there.symmetric_outputs.at(static_cast<std::size_t>(output.part));
            const std::int64_t pitch = output.pitch > 0 ? output.pitch : output.shape.columns;
            EXPECT_EQ(pitch, output.place == Place::slot ? there.slot_columns : buffer.columns);
            EXPECT_GE(output.row_begin, 0);
            EXPECT_GE(output.column_begin, 0);
            EXPECT_LE(output.column_begin + output.shape.columns, pitch);
            if (output.shape.rows > 0) {
              EXPECT_LE((output.row_begin + output.shape.rows) * pitch, buffer.rows * buffer.columns);
            }
          }
          for (const LocalOutput& output : layout.local_outputs) {
            EXPECT_EQ(output.shape.columns, layout.user_output.columns);
            EXPECT_LE(output.row_begin + output.shape.rows, layout.user_output.rows);
          }
        }
      });
}

/// Row of which rank's A the region multiplies in its row `row`.
std::pair<int, std::int64_t> a_row_of(const World& world, int rank, const GemmRegionTarget& target, std::int64_t row) {
  const std::int64_t of_operand = target.a_row_begin + row;
  return target.a_map == 0 ? std::pair{rank, of_operand}
                           : std::pair{target.gather_rank, of_operand - world.rows_of(target.gather_rank).begin};
}

/// An element of a result.
struct Corner {
  std::int64_t row;
  std::int64_t column;
};

/// The first and last element of a region that begins at `corner` of the result, multiplied where and from what the
/// other statement says.
void expect_products(const World& world, int rank, std::size_t region, int destination, std::size_t part,
                     const Corner& corner) {
  const GemmRegion& shape = world.of(rank).schedule.region(static_cast<std::int32_t>(region));
  const GemmRegionTarget& target = world.of(rank).targets[region];
  if (shape.rows == 0 || shape.columns == 0) {
    return;
  }
  for (const auto& [row, column] : {std::pair{0, 0}, std::pair{shape.rows - 1, shape.columns - 1}}) {
    const auto [a_rank, a_row] = a_row_of(world, rank, target, row);
    const Product mine{a_rank, a_row, rank, std::int64_t{target.b_row_begin} + column};
    const std::vector<Product> all =
        products_of(world.cell, destination, part, corner.row + row, corner.column + column);
    EXPECT_EQ(std::count(all.begin(), all.end(), mine), 1)
        << "rank " << rank << " region " << region << " row " << row << " column " << column;
  }
}

/// Where in the destination's result the first element written is. A slot of an all-reduce holds the owner's columns.
Corner corner_of(const World& world, const OutputTarget& output) {
  if (output.place == Place::symmetric) {
    return {output.row_begin, output.column_begin};
  }
  const bool by_columns = world.problem().operation == Operation::all_reduce && !world.exchanges();
  return {0, by_columns ? columns_of(world, output.rank).begin : 0};
}

TEST(GemmLayout, RegionsMultiplyTheRightRows) {
  for_random_worlds(
      {operations[0], operations[1], operations[2], operations[3], operations[4]}, [](const World& world) {
        for (int rank = 0; rank < world.cell.ranks; ++rank) {
          const Layout& layout = world.of(rank);
          ASSERT_EQ(layout.targets.size(), static_cast<std::size_t>(layout.schedule.regions()));
          for (std::size_t region = 0; region < layout.targets.size(); ++region) {
            const GemmRegionTarget& target = layout.targets[region];
            const GemmRegion& shape = layout.schedule.region(static_cast<std::int32_t>(region));
            const auto first = static_cast<std::size_t>(target.output_map);
            if (target.local_output != 0) {
              EXPECT_EQ(target.remote, 0);
              EXPECT_EQ(layout.local_outputs.at(first).shape.rows, shape.rows);
              expect_products(world, rank, region, rank, 0, {layout.local_outputs.at(first).row_begin, 0});
              continue;
            }
            bool remote = false;
            for (std::size_t copy = 0; copy < static_cast<std::size_t>(target.output_copies); ++copy) {
              const OutputTarget& output = layout.outputs.at(first + copy);
              EXPECT_EQ(output.shape.rows, shape.rows);
              EXPECT_EQ(output.shape.columns, shape.columns);
              remote = remote || output.rank != rank;
              expect_products(world, rank, region, output.rank, static_cast<std::size_t>(output.part),
                              corner_of(world, output));
            }
            EXPECT_EQ(target.remote != 0, remote);
            for (std::size_t copy = 0; copy < static_cast<std::size_t>(target.output_copies); ++copy) {
              EXPECT_EQ(layout.targets_remote(first + copy), remote);
            }
          }
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

TEST(GemmLayout, AnExchangeGoesToAllPeersAndEndsAtHome) {
  for_random_worlds({Operation::all_reduce}, [](const World& world) {
    for (int rank = 0; rank < world.cell.ranks && world.exchanges(); ++rank) {
      const Layout& layout = world.of(rank);
      ASSERT_EQ(layout.targets.size(), 1U);
      const GemmRegionTarget& target = layout.targets[0];
      EXPECT_EQ(target.exchange, 1);
      EXPECT_EQ(target.reduce, 1);
      EXPECT_EQ(target.raw, 0);
      std::set<int> peers;
      for (std::int32_t copy = 0; copy < target.output_copies; ++copy) {
        const OutputTarget& output = layout.outputs.at(static_cast<std::size_t>(target.output_map + copy));
        EXPECT_EQ(output.place, Place::slot);
        EXPECT_NE(output.rank, rank);
        peers.insert(output.rank);
      }
      EXPECT_EQ(peers.size(), static_cast<std::size_t>(world.cell.ranks - 1));
      const OutputTarget& sum = layout.outputs.at(static_cast<std::size_t>(target.final_map));
      EXPECT_EQ(sum.place, Place::symmetric);
      EXPECT_EQ(sum.rank, rank);
      EXPECT_FALSE(layout.targets_remote(static_cast<std::size_t>(target.final_map)));
    }
  });
}

TEST(GemmLayout, AllGatherStartsWithItsOwnRows) {
  for_random_worlds({Operation::all_gather}, [](const World& world) {
    for (int rank = 0; rank < world.cell.ranks; ++rank) {
      const Layout& layout = world.of(rank);
      ASSERT_EQ(layout.targets.size(), static_cast<std::size_t>(world.cell.ranks));
      EXPECT_EQ(layout.targets[0].gather_rank, -1);
      EXPECT_EQ(layout.targets[0].a_map, 0);
      for (int step = 1; step < world.cell.ranks; ++step) {
        // Peer r - s pushes to r as its s-th.
        EXPECT_EQ(layout.targets[static_cast<std::size_t>(step)].gather_rank,
                  (rank + world.cell.ranks - step) % world.cell.ranks);
        EXPECT_EQ(layout.targets[static_cast<std::size_t>(step)].a_map, 1);
      }
    }
  });
}

// ---- flags
// -----------------------------------------------------------------------------------------------------------

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
      const bool exchanges = target.exchange != 0 && target.in_registers == 0;  // words carry their own number
      if (target.signal_rank == owner || (exchanges && source != owner)) {
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
    for (int peer = 0; peer < world.cell.ranks && target.reduce != 0 && target.in_registers == 0; ++peer) {
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

TEST(GemmLayout, EveryChunkOfAGatherHasAFlag) {
  for_random_worlds({Operation::all_gather}, [](const World& world) {
    if (world.cell.ranks == 1) {
      EXPECT_EQ(world.of(0).tile_flags, 0);
      return;
    }
    for (int rank = 0; rank < world.cell.ranks; ++rank) {
      const kernels::GatherParameters& gather = world.of(rank).gather;
      // Every rank numbers the chunks of all ranks alike, so the largest shard counts.
      EXPECT_EQ(gather.row_chunks, (world.rows_of(0).count + gather.chunk_rows - 1) / gather.chunk_rows);
      EXPECT_GE(std::int64_t{gather.depth_chunks} * gather.chunk_depth, world.problem().k);
      EXPECT_LT(std::int64_t{gather.depth_chunks - 1} * gather.chunk_depth, world.problem().k);
      EXPECT_EQ(gather.chunk_rows % kernels::gemm_tile_rows, 0) << "a tile must not wait for two chunks of rows";
      EXPECT_EQ(world.of(rank).tile_flags, std::int64_t{gather.row_chunks} * gather.depth_chunks * world.cell.ranks);
    }
  });
}

// ---- heap
// ------------------------------------------------------------------------------------------------------------

/// What a handle takes from the heap, one buffer after the other.
std::vector<std::int64_t> buffers_of(const Layout& layout) {
  const auto bytes = [](const MatrixShape& shape) { return shape.rows * shape.columns * 2; };
  std::vector<std::int64_t> buffers{(std::int64_t{kernels::SignalPad::tile_flags} + layout.tile_flags) * 4};
  if (layout.slots.rows > 0) {
    buffers.push_back(bytes(layout.slots));
  }
  buffers.insert(buffers.end(), static_cast<std::size_t>(layout.gather.buffers), bytes(layout.gathered));
  for (const MatrixShape& output : layout.symmetric_outputs) {
    buffers.push_back(bytes(output));
  }
  return buffers;
}

TEST(GemmLayout, AllRanksTakeTheSameBuffersAndHeapBytesIsEnough) {
  for_random_worlds(
      {operations[0], operations[1], operations[2], operations[3], operations[4]}, [](const World& world) {
        const std::vector<std::int64_t> buffers = buffers_of(world.of(0));
        for (int rank = 1; rank < world.cell.ranks; ++rank) {
          EXPECT_EQ(buffers_of(world.of(rank)), buffers) << "rank " << rank;
        }
        memory::OffsetAllocator allocator(heap_bytes(world.problem(), world.plan, world.cell.ranks));
        for (const std::int64_t bytes : buffers) {
          ASSERT_GT(bytes, 0);
          EXPECT_TRUE(allocator.allocate(static_cast<std::size_t>(bytes), HeapRank::default_alignment).has_value())
              << bytes;
        }
      });
}

TEST(GemmLayout, OperandsAreThoseOfTheInterface) {
  for_random_worlds(
      {operations[0], operations[1], operations[2], operations[3], operations[4]}, [](const World& world) {
        for (int rank = 0; rank < world.cell.ranks; ++rank) {
          const Layout& layout = world.of(rank);
          const bool shares_rows =
              world.problem().operation == Operation::all_gather || world.problem().operation == Operation::all_to_all;
          EXPECT_EQ(layout.a.rows, shares_rows ? world.rows_of(rank).count : world.problem().m);
          EXPECT_EQ(layout.a.columns, depth_of_rank(world.cell));
          EXPECT_EQ(layout.b.columns, depth_of_rank(world.cell));
          EXPECT_EQ(layout.b.rows, shape_of_rank(world.cell).n);
        }
      });
}

}  // namespace
}  // namespace xstage::gemm
