#include "calibrate/estimators.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "unit/calibrate_synthetic.hpp"

namespace xstage::calibrate::calibrate_estimators_test {
namespace {

TEST(Estimators, MedianOfOddEvenAndNone) {
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 2, 3}), 2.5);
  EXPECT_TRUE(std::isnan(median({})));
}

TEST(Estimators, PercentileInterpolatesBetweenOrderStatistics) {
  EXPECT_EQ(percentile({40, 10, 20, 30}, 0), 10);
  EXPECT_EQ(percentile({40, 10, 20, 30}, 100), 40);
  EXPECT_DOUBLE_EQ(percentile({40, 10, 20, 30}, 50), 25);
  EXPECT_DOUBLE_EQ(percentile({0, 10}, 2.5), 0.25);
}

TEST(Estimators, TheilSenSlopeIgnoresAMinorityOfOutliers) {
  std::vector<std::pair<double, double>> points;
  for (int x = 0; x < 11; ++x) {
    points.emplace_back(x, 3.0 * x + 7);
  }
  points[2].second = 1000;
  points[9].second = -1000;
  EXPECT_NEAR(theil_sen_slope(points), 3, 1e-12);
}

TEST(Estimators, TheilSenSlopeNeedsTwoAbscissae) {
  const std::vector<std::pair<double, double>> same_abscissa{{1, 2}, {1, 3}};
  EXPECT_TRUE(std::isnan(theil_sen_slope(same_abscissa)));
}

TEST(Estimators, BootstrapIsDeterministicAndBracketsTheMedian) {
  const std::vector<double> values{9, 1, 7, 3, 5, 6, 4};
  const Interval first = bootstrap_median_interval(values);
  const Interval second = bootstrap_median_interval(values);
  EXPECT_EQ(first.low, second.low);
  EXPECT_EQ(first.high, second.high);
  EXPECT_LT(first.low, 5);
  EXPECT_GT(first.high, 5);
  EXPECT_GE(first.low, 1);
  EXPECT_LE(first.high, 9);
}

// A nominal 95% interval of the median of 9 normal values should hold the true median in most of 200 draws. The bound
// of 90% leaves room for the percentile bootstrap's known undercoverage in small samples and for 200 draws' own spread.
TEST(Estimators, BootstrapIntervalCoversTheTruth) {
  test::Noise noise(0.01, 42);
  int covered = 0;
  for (int draw = 0; draw < 200; ++draw) {
    std::vector<double> values(9);
    for (double& value : values) {
      value = 100 * noise.factor();
    }
    const Interval interval = bootstrap_median_interval(values);
    covered += interval.low <= 100 && 100 <= interval.high ? 1 : 0;
  }
  EXPECT_GE(covered, 180);
  EXPECT_LT(covered, 200);
}

TEST(Estimators, IsotonicLeavesAnAscendingSeriesAlone) {
  EXPECT_EQ(isotonic_medians({{1}, {2}, {2}, {5}}), (std::vector<double>{1, 2, 2, 5}));
}

TEST(Estimators, IsotonicOutvotesASpikeAndADip) {
  EXPECT_EQ(isotonic_medians({{1}, {90}, {3}, {4}, {5}}), (std::vector<double>{1, 4, 4, 4, 5}));
  EXPECT_EQ(isotonic_medians({{1}, {2}, {3}, {0.1}, {5}}), (std::vector<double>{1, 2, 2, 2, 5}));
}

TEST(Estimators, IsotonicUsesTheMedianOfAGroup) {
  EXPECT_EQ(isotonic_medians({{1, 1.1, 50}, {2}}), (std::vector<double>{1.1, 2}));
}

}  // namespace
}  // namespace xstage::calibrate::calibrate_estimators_test
