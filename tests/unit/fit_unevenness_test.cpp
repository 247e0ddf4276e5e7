#include "calibrate/fit_unevenness.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace xstage::calibrate::fit_unevenness_test {
namespace {

constexpr double capacity = 2.7e6;

/// An isolated aligned burst of 132 producers whose rates lie evenly in [1-a, 1+a]: 5% of them end before t/(1 + 0.9a)
/// and 5% after t/(1 - 0.9a).
BurstSample isolated_burst(std::int64_t bytes, double a) {
  BurstSample sample;
  sample.experiment.mode = BurstMode::isolated;
  sample.experiment.regime = Regime::aligned;
  sample.experiment.producers = 132;
  sample.experiment.bytes = bytes;
  sample.issue_us = (132.0 * static_cast<double>(bytes) - capacity) / 373e3;
  sample.issue_p5_us = sample.issue_us / (1 + 0.9 * a);
  sample.issue_p95_us = sample.issue_us / (1 - 0.9 * a);
  return sample;
}

std::vector<CapacityPoint> known_capacity() {
  CapacityPoint few;
  few.producers = 4;
  few.capacity_bytes.reason = "no knee";
  CapacityPoint all;
  all.producers = 132;
  all.capacity_bytes.value = capacity;
  return {few, all};
}

Rows rows_of(const std::vector<BurstSample>& samples) {
  Rows rows;
  for (const BurstSample& sample : samples) {
    rows.push_back(&sample);
  }
  return rows;
}

TEST(FitUnevenness, TwoHalvesWithTheSameStandardDeviation) {
  const std::vector<BurstSample> samples{isolated_burst(65536, 0.3), isolated_burst(98304, 0.3),
                                         isolated_burst(131072, 0.3)};
  const Estimate estimate = fit_unevenness(rows_of(samples), known_capacity());
  ASSERT_TRUE(estimate.value) << estimate.reason;
  EXPECT_NEAR(*estimate.value, 0.3 / std::sqrt(3.0), 1e-9);
  EXPECT_EQ(estimate.points, 3);
}

TEST(FitUnevenness, ShortBurstsAndOtherProducerCountsDoNotCount) {
  std::vector<BurstSample> samples{isolated_burst(65536, 0.3), isolated_burst(131072, 0.3), isolated_burst(24576, 0.8),
                                   isolated_burst(131072, 0.8)};
  samples.back().experiment.producers = 66;
  const Estimate estimate = fit_unevenness(rows_of(samples), known_capacity());
  ASSERT_TRUE(estimate.value) << estimate.reason;
  EXPECT_NEAR(*estimate.value, 0.3 / std::sqrt(3.0), 1e-9);
}

TEST(FitUnevenness, SaysWhyThereIsNone) {
  const std::vector<BurstSample> one{isolated_burst(131072, 0.3)};
  EXPECT_NE(fit_unevenness(rows_of(one), known_capacity()).reason.find("fewer than 2"), std::string::npos);
  EXPECT_NE(fit_unevenness(rows_of(one), {}).reason.find("no capacity is known"), std::string::npos);
}

}  // namespace
}  // namespace xstage::calibrate::fit_unevenness_test
