#include "ops/gemm/bench/sampled_result.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace xstage::bench::bench_sampled_result_test {
namespace {

using gemm::Operation;
using ::testing::ElementsAre;

GemmCell cell_of(Operation operation, const char* shape, int ranks) {
  return make_cells({operation}, parse_shapes(shape), ranks).front();
}

TEST(BenchSampledResult, SumsComeFromAllRanks) {
  const GemmCell scatter = cell_of(Operation::reduce_scatter, "101x64x64", 2);  // 51 and 50 rows
  EXPECT_EQ(result_shapes(scatter, 0)[0].rows, 51);
  EXPECT_EQ(result_shapes(scatter, 1)[0].rows, 50);
  EXPECT_EQ(depth_of_rank(scatter), 32);
  EXPECT_THAT(products_of(scatter, 1, 0, 3, 9), ElementsAre(Product{0, 54, 0, 9}, Product{1, 54, 1, 9}));

  const GemmCell reduce = cell_of(Operation::all_reduce, "101x64x64", 2);
  EXPECT_EQ(result_shapes(reduce, 1)[0].rows, 101);
  EXPECT_THAT(products_of(reduce, 1, 0, 3, 9), ElementsAre(Product{0, 3, 0, 9}, Product{1, 3, 1, 9}));
}

TEST(BenchSampledResult, GatheredRowsMeetTheWeightsOfTheRank) {
  const GemmCell gather = cell_of(Operation::all_gather, "101x64x64", 2);
  EXPECT_EQ(result_shapes(gather, 1)[0].rows, 101);
  EXPECT_EQ(result_shapes(gather, 1)[0].columns, 32);
  EXPECT_THAT(products_of(gather, 1, 0, 50, 9), ElementsAre(Product{0, 50, 1, 9}));
  EXPECT_THAT(products_of(gather, 0, 0, 100, 9), ElementsAre(Product{1, 49, 0, 9}));
}

TEST(BenchSampledResult, HeadsComeFromTheOwnerOfTheRow) {
  const GemmCell heads = cell_of(Operation::all_to_all, "101x1536x64", 2);  // Q, K, V of 4 heads
  ASSERT_EQ(result_shapes(heads, 1).size(), 3U);
  EXPECT_EQ(result_shapes(heads, 1)[2].columns, 256);
  // Rank 1's third head of K, column 5: B's rows are Q (512), then K's heads 0
  // and 1, then those of rank 1.
  EXPECT_THAT(products_of(heads, 1, 1, 60, 5), ElementsAre(Product{1, 9, 1, 512 + 256 + 5}));
  EXPECT_THAT(products_of(heads, 0, 2, 50, 255), ElementsAre(Product{0, 50, 0, 1024 + 255}));
}

TEST(BenchSampledResult, SamplesHoldTheEdges) {
  const std::vector<std::int64_t> rows = sample(1000, 64, 5);
  EXPECT_EQ(rows.size(), 64U);
  EXPECT_EQ(rows.front(), 0);
  EXPECT_EQ(rows.back(), 999);
  EXPECT_EQ(rows, sample(1000, 64, 5));
  EXPECT_NE(rows, sample(1000, 64, 6));
  EXPECT_THAT(sample(3, 64, 5), ElementsAre(0, 1, 2));
  EXPECT_THAT(sample(1, 64, 5), ElementsAre(0));
  EXPECT_TRUE(sample(0, 64, 5).empty());
}

TEST(BenchSampledResult, ErrorsAreCountedInRoundings) {
  EXPECT_DOUBLE_EQ(error_in_roundings(1.0, 1.0, 1.0), 0);
  EXPECT_DOUBLE_EQ(error_in_roundings(1.0 + 2.0 / 256, 1.0, 1.0), 1.0);
  EXPECT_DOUBLE_EQ(error_in_roundings(-1.0, 1.0, 0.0), 512);
  EXPECT_TRUE(std::isinf(error_in_roundings(std::numeric_limits<double>::quiet_NaN(), 1.0, 1.0)));
  EXPECT_TRUE(std::isinf(error_in_roundings(0.5, 0.0, 0.0)));
}

}  // namespace
}  // namespace xstage::bench::bench_sampled_result_test
