// Layouts of all ranks, compared with a second statement of what the operations compute (bench/gemm_sampled_result):
// every element has one source, and nothing lies outside of its buffer.

#include "ops/gemm/layout.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "fabric/call_parameters.hpp"
#include "heap/offset_allocator.hpp"
#include "ops/gemm/bench/sampled_result.hpp"
#include "ops/gemm/test/layout_world.hpp"

namespace xstage::gemm::layout_test {
namespace {

using bench::Product;
using kernels::GemmRegionTarget;
using schedule::GemmRegion;

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
  for_random_worlds(all_operations, [](const World& world) {
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

TEST(GemmLayout, NoTargetLiesOutsideOfItsBuffer) {
  for_random_worlds(all_operations, [](const World& world) {
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

/// Rank and row of A that the region multiplies in its row `row`.
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

/// Compares the first and last element of a region that begins at `corner` of the result with the other statement:
/// which rank multiplies them, and from which rows.
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

/// Place of the first written element in the destination's result. A slot of an all-reduce holds the owner's columns.
Corner corner_of(const World& world, const OutputTarget& output) {
  if (output.place == Place::symmetric) {
    return {output.row_begin, output.column_begin};
  }
  const bool by_columns = world.problem().operation == Operation::all_reduce && !world.exchanges();
  return {0, by_columns ? world.columns_of(output.rank).begin : 0};
}

TEST(GemmLayout, RegionsMultiplyTheRightRows) {
  for_random_worlds(all_operations, [](const World& world) {
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

/// Bytes of the buffers that a handle allocates in the heap, in order.
std::vector<std::int64_t> buffers_of(const Layout& layout) {
  const auto bytes = [](const MatrixShape& shape) { return shape.rows * shape.columns * 2; };
  std::vector<std::int64_t> buffers{(std::int64_t{kernels::CallPad::arrivals} + layout.tile_flags) * 4};
  if (layout.slots.rows > 0) {
    buffers.push_back(bytes(layout.slots));
  }
  if (layout.exchange_bytes > 0) {
    buffers.push_back(layout.exchange_bytes);
  }
  buffers.insert(buffers.end(), static_cast<std::size_t>(layout.gather.buffers), bytes(layout.gathered));
  for (const MatrixShape& output : layout.symmetric_outputs) {
    buffers.push_back(bytes(output));
  }
  return buffers;
}

TEST(GemmLayout, AllRanksTakeTheSameBuffersAndHeapBytesIsEnough) {
  for_random_worlds(all_operations, [](const World& world) {
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
  for_random_worlds(all_operations, [](const World& world) {
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
}  // namespace xstage::gemm::layout_test
