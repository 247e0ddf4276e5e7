#include "ops/gemm/bench/cells.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "xstage/error.hpp"

namespace xstage::bench::bench_cells_test {
namespace {

using gemm::Operation;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

const std::vector<Operation> all_operations = parse_operations("gemm,reduce_scatter,all_gather,all_reduce,all_to_all");

std::size_t count_of(const std::vector<GemmCell>& cells, Operation operation) {
  return static_cast<std::size_t>(std::count_if(
      cells.begin(), cells.end(), [&](const GemmCell& cell) { return cell.problem.operation == operation; }));
}

TEST(BenchGemmCells, TableHasEveryShapeOnce) {
  const std::vector<GemmCell> cells = make_cells(all_operations, parse_shapes("table"), 2);
  std::set<std::string> names;
  for (const GemmCell& cell : cells) {
    EXPECT_TRUE(names.insert(cell_name(cell)).second) << cell_name(cell);
    EXPECT_EQ(cell.ranks, cell.problem.operation == Operation::gemm ? 1 : 2);
  }
  EXPECT_EQ(count_of(cells, Operation::reduce_scatter), 6U);
  EXPECT_EQ(count_of(cells, Operation::all_gather), 6U);
  EXPECT_EQ(count_of(cells, Operation::all_reduce), 4U);
  EXPECT_EQ(count_of(cells, Operation::all_to_all), 5U);
  // 5 squares and 2 x 6 shares, of which 4096x4096x4096 is both.
  EXPECT_EQ(count_of(cells, Operation::gemm), 16U);
  EXPECT_TRUE(names.contains("gemm 8192x4096x8192 on 1 rank"));
  EXPECT_TRUE(names.contains("gemm_all_to_all 65536x15360x5120 on 2 ranks"));
}

TEST(BenchGemmCells, ShareOfARank) {
  const auto share = [](Operation operation, const std::string& shape) {
    return shape_of_rank(make_cells({operation}, parse_shapes(shape), 4).front());
  };
  EXPECT_EQ(share(Operation::reduce_scatter, "1030x512x256"), (GemmShape{1030, 512, 64}));
  EXPECT_EQ(share(Operation::all_reduce, "16x512x256"), (GemmShape{16, 512, 64}));
  EXPECT_EQ(share(Operation::all_gather, "1030x512x256"), (GemmShape{1030, 128, 256}));
  EXPECT_EQ(share(Operation::all_to_all, "1030x1536x256"), (GemmShape{258, 1536, 256}));
  EXPECT_EQ(share(Operation::gemm, "1030x512x256"), (GemmShape{1030, 512, 256}));
  EXPECT_DOUBLE_EQ(operations_of_rank(make_cells({Operation::all_reduce}, parse_shapes("16x512x256"), 4).front()),
                   2.0 * 16 * 512 * 64);
}

TEST(BenchGemmCells, HeadsOfAnAllToAll) {
  const GemmCell cell = make_cells({Operation::all_to_all}, parse_shapes("small"), 2).at(1);
  EXPECT_EQ(heads_text(cell.problem), "3x40");
  EXPECT_EQ(cell.problem.head_dim, 128);
  EXPECT_EQ(heads_text(make_cells({Operation::gemm}, parse_shapes("small"), 2).front().problem), "");
}

TEST(BenchGemmCells, NamesAreReadInOrderAndOnce) {
  EXPECT_THAT(parse_operations("all_reduce,gemm,all_reduce"), ElementsAre(Operation::all_reduce, Operation::gemm));
  EXPECT_THAT(parse_shapes("1x2x3,40x50x60").listed, ElementsAre(GemmShape{1, 2, 3}, GemmShape{40, 50, 60}));
}

TEST(BenchGemmCells, MistakesAreNamed) {
  EXPECT_THAT([] { static_cast<void>(parse_operations("gemm,broadcast")); },
              ThrowsMessage<InputError>(HasSubstr("'broadcast'")));
  for (const char* text :
       {"", "8192", "1x2", "1x2x3x4", "1x2x-3", "1x2x0", "1x2x3,", "1x2x 3", "1x2x99999999999999999999"}) {
    EXPECT_THROW(static_cast<void>(parse_shapes(text)), InputError) << text;
  }
}

TEST(BenchGemmCells, ShapesThatBreakARuleAreRefused) {
  EXPECT_THAT([] { static_cast<void>(make_cells({Operation::all_to_all}, parse_shapes("64x1000x512"), 2)); },
              ThrowsMessage<InputError>(HasSubstr("n is 1000")));
  EXPECT_THROW(static_cast<void>(make_cells({Operation::all_reduce}, parse_shapes("64x512x24"), 2)), InputError);
  EXPECT_THAT([] { static_cast<void>(make_cells({Operation::all_reduce}, parse_shapes("table"), 1)); },
              ThrowsMessage<InputError>(HasSubstr("at least 2")));
  EXPECT_THROW(static_cast<void>(make_cells({Operation::all_gather}, parse_shapes("decode"), 2)), InputError);
  EXPECT_NO_THROW(static_cast<void>(make_cells({Operation::gemm}, parse_shapes("table"), 1)));
}

TEST(BenchGemmCells, EveryWorldHasATable) {
  // 40 heads are not divisible by 3, 6 or 7 ranks: those say so.
  for (const int ranks : {2, 4, 8}) {
    EXPECT_GT(make_cells(all_operations, parse_shapes("table"), ranks).size(), 30U) << ranks;
  }
}

}  // namespace
}  // namespace xstage::bench::bench_cells_test
