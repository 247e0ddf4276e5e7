#include "bench/statistics.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>
#include <vector>

namespace xstage::bench::bench_statistics_test {
namespace {

TEST(BenchStatistics, PercentilesInterpolateBetweenNeighbours) {
  const std::vector<double> values{40, 10, 30, 20, 50};
  EXPECT_DOUBLE_EQ(percentile(values, 0), 10);
  EXPECT_DOUBLE_EQ(percentile(values, 1), 50);
  EXPECT_DOUBLE_EQ(percentile(values, 0.05), 12);
  EXPECT_DOUBLE_EQ(median(values), 30);
  EXPECT_DOUBLE_EQ(median(std::vector<double>{4, 1}), 2.5);
  EXPECT_TRUE(std::isnan(median({})));
}

TEST(BenchStatistics, RatiosArePairedByRound) {
  // Both slow down together; the ratio does not move, though the ratio of
  // medians of other rounds would.
  const std::vector<double> slow{20, 40, 60, 22, 24, 200};
  const std::vector<double> fast{10, 20, 30, 11, 12, 100};
  const PairedRatio ratio = paired_ratio(slow, fast);
  EXPECT_DOUBLE_EQ(ratio.ratio, 2);
  EXPECT_DOUBLE_EQ(ratio.low, 2);
  EXPECT_DOUBLE_EQ(ratio.high, 2);
}

TEST(BenchStatistics, IntervalIsThatOfTheSignTest) {
  // Tables of the binomial distribution: for 20 values the 6th and the 15th,
  // for 6 the extremes, for 100 the 40th and 61st.
  const auto rising = [](int count) {
    std::vector<double> values;
    for (int value = count; value >= 1; --value) {
      values.push_back(value);
    }
    return values;
  };
  const auto interval = [&](int count) {
    return paired_ratio(rising(count), std::vector<double>(static_cast<std::size_t>(count), 1.0));
  };
  EXPECT_DOUBLE_EQ(interval(20).ratio, 10.5);
  EXPECT_DOUBLE_EQ(interval(20).low, 6);
  EXPECT_DOUBLE_EQ(interval(20).high, 15);
  EXPECT_DOUBLE_EQ(interval(6).low, 1);
  EXPECT_DOUBLE_EQ(interval(6).high, 6);
  EXPECT_DOUBLE_EQ(interval(100).low, 40);
  EXPECT_DOUBLE_EQ(interval(100).high, 61);
  // Thousands of rounds: near m +- 1.96 sqrt(n) / 2.
  EXPECT_NEAR(interval(10000).low, 5000 - 98, 2);
}

TEST(BenchStatistics, TooFewRoundsHaveNoInterval) {
  const std::vector<double> five(5, 3.0);
  const PairedRatio ratio = paired_ratio(five, five);
  EXPECT_DOUBLE_EQ(ratio.ratio, 1);
  EXPECT_TRUE(std::isnan(ratio.low));
  EXPECT_TRUE(std::isnan(ratio.high));
}

TEST(BenchStatistics, UnpairedSeriesAreRefused) {
  EXPECT_THROW(static_cast<void>(paired_ratio(std::vector<double>{1, 2}, std::vector<double>{1})), std::logic_error);
  EXPECT_THROW(static_cast<void>(paired_ratio({}, {})), std::logic_error);
}

}  // namespace
}  // namespace xstage::bench::bench_statistics_test
