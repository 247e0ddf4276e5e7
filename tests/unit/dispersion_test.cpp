// The train of producers that share the drain unevenly, against the recursion that it extends.

#include "xstage/dispersion.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <vector>

namespace xstage::model::dispersion_test {
namespace {

OperatingPoint point_with(double volume) { return {volume, 0.13, 373.9e3, 2.74e6}; }

std::vector<double> uneven_train(const OperatingPoint& point, double unevenness, const std::vector<double>& gaps) {
  std::vector<double> issue(gaps.size());
  uneven_train_issue_us(point, unevenness, gaps, issue);
  return issue;
}

TEST(UnevenTrain, EvenSharesAreTheBacklogRecursion) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> volume(0.2e6, 6e6);
  std::uniform_real_distribution<double> gap(0, 12);
  for (int repeat = 0; repeat < 200; ++repeat) {
    const OperatingPoint point = point_with(volume(random));
    std::vector<double> gaps(16);
    for (double& one : gaps) {
      one = gap(random);
    }
    const std::vector<double> issue = uneven_train(point, 0, gaps);
    double backlog = 0;
    for (std::size_t burst = 0; burst < gaps.size(); ++burst) {
      const auto expected = aligned::next_burst(point, burst == 0 ? 0 : gaps[burst], backlog);
      backlog = expected.backlog_at_end_bytes;
      EXPECT_NEAR(issue[burst], expected.issue_us, 1e-6) << "burst " << burst << " of V = " << point.volume_bytes;
    }
  }
}

TEST(UnevenTrain, UnevenSharesBringTheOnsetForward) {
  // 132 x 8 KiB with a gap of 1.72 us: each burst leaves 0.39 MB more than the gap drains.
  const OperatingPoint point = point_with(132 * 8192);
  const std::vector<double> gaps(12, 1.72);
  const auto even = onset_of_backpressure(uneven_train(point, 0, gaps), point.issue_floor_us, 0.1);
  const auto uneven = onset_of_backpressure(uneven_train(point, 0.2, gaps), point.issue_floor_us, 0.1);
  EXPECT_EQ(even, 5);
  EXPECT_EQ(uneven, 4);  // measured on two H200: 4
}

TEST(UnevenTrain, LongGapsLeaveTheFloor) {
  const OperatingPoint point = point_with(132 * 8192);
  for (const double issue : uneven_train(point, 0.3, std::vector<double>(20, 4))) {
    EXPECT_NEAR(issue, point.issue_floor_us, 1e-9);
  }
}

TEST(UnevenTrain, AddsUpWhileTheDrainIsBusy) {
  // While both halves are backlogged the drain is shared, not lost: a favoured and a disfavoured half average to less
  // than twice and more than half of the even train's issue time.
  const OperatingPoint point = point_with(132 * 16384);
  const std::vector<double> gaps(6, 1.45);
  const std::vector<double> even = uneven_train(point, 0, gaps);
  const std::vector<double> uneven = uneven_train(point, 0.2, gaps);
  const double sum_even = std::accumulate(even.begin(), even.end(), 0.0);
  const double sum_uneven = std::accumulate(uneven.begin(), uneven.end(), 0.0);
  EXPECT_GT(sum_uneven, sum_even / 2);
  EXPECT_LT(sum_uneven, sum_even * 2);
}

TEST(UnevenTrain, AnEmptyTrainIsFine) {
  std::vector<double> none;
  uneven_train_issue_us(point_with(1e6), 0.2, none, none);
  EXPECT_TRUE(none.empty());
}

}  // namespace
}  // namespace xstage::model::dispersion_test
