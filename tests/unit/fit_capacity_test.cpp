#include "calibrate/fit_capacity.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "unit/calibrate_synthetic.hpp"
#include "xstage/calibrate.hpp"

namespace xstage::calibrate::fit_capacity_test {
namespace {

using test::Noise;
using test::Truth;
using testing::HasSubstr;

const Rates true_rates{372500, 50000};

std::vector<IssueFloorPoint> true_floor() {
  std::vector<IssueFloorPoint> table;
  for (const double kibibytes : {1.0, 16.0, 256.0}) {  // piecewise linear with its break at 16 KiB
    table.push_back({kibibytes * 1024, Truth().floor_us(kibibytes * 1024)});
  }
  return table;
}

SamplesFile isolated_file(const Truth& truth, int producers, const std::vector<std::int64_t>& kibibytes,
                          Noise noise = Noise()) {
  std::vector<BurstExperiment> experiments;
  for (const std::int64_t size : kibibytes) {
    experiments.push_back(test::isolated_experiment(producers, size * 1024));
  }
  return test::synthetic_file(truth, experiments, noise);
}

CapacityPoint capacity_of(const SamplesFile& file) {
  const std::vector<CapacityPoint> points = fit_capacity(plain_rows(file), true_rates, true_floor(), "");
  EXPECT_EQ(points.size(), 1U);
  return points.front();
}

const std::vector<std::int64_t> sizes{1, 2, 4, 8, 12, 16, 20, 24, 32, 48, 64, 80, 128};

TEST(FitCapacity, RecoversQAndTheKneeWithoutNoise) {
  for (const int producers : {33, 66, 132}) {
    const CapacityPoint point = capacity_of(isolated_file(Truth(), producers, sizes));
    ASSERT_TRUE(point.capacity_bytes.value) << point.capacity_bytes.reason;
    EXPECT_EQ(point.producers, producers);
    EXPECT_NEAR(*point.capacity_bytes.value, Truth().capacity(producers), 1);
    EXPECT_NEAR(point.median_error, 0, 1e-9);
    const double knee = point.knee_bytes_per_producer;
    EXPECT_NEAR((producers * knee - Truth().capacity(producers)) / 372500, Truth().floor_us(knee), 1e-6);
  }
}

TEST(FitCapacity, RecoversWithinFivePercentUnderNoise) {
  int covered = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const CapacityPoint point = capacity_of(isolated_file(Truth(), 132, sizes, Noise(0.01, seed)));
    ASSERT_TRUE(point.capacity_bytes.value) << point.capacity_bytes.reason;
    const double truth = Truth().capacity(132);
    EXPECT_NEAR(*point.capacity_bytes.value, truth, 0.05 * truth) << "seed " << seed;
    covered += point.capacity_bytes.low <= truth && truth <= point.capacity_bytes.high ? 1 : 0;
  }
  EXPECT_GE(covered, 34);  // 5 to 6 points beyond the knee: the percentile bootstrap undercovers
}

TEST(FitCapacity, ASingleOutlierDoesNotMoveQ) {
  const SamplesFile file = isolated_file(Truth(), 132, sizes);
  for (std::size_t row = 0; row < file.samples.size(); ++row) {
    for (const double disturbance : {0.3, 4.0}) {
      SamplesFile disturbed = file;
      disturbed.samples[row].issue_us *= disturbance;
      const CapacityPoint point = capacity_of(disturbed);
      ASSERT_TRUE(point.capacity_bytes.value) << point.capacity_bytes.reason;
      EXPECT_NEAR(*point.capacity_bytes.value, Truth().capacity(132), 1) << "row " << row << " times " << disturbance;
    }
  }
}

TEST(FitCapacity, FewProducersHaveNoKneeOfTheFabric) {
  const CapacityPoint point = capacity_of(isolated_file(Truth(), 4, sizes));
  EXPECT_FALSE(point.capacity_bytes.value);
  EXPECT_THAT(point.capacity_bytes.reason, HasSubstr("4 producers of 50.0 GB/s each cannot outrun the drain of 372.5"));
  EXPECT_TRUE(std::isnan(point.knee_bytes_per_producer));
}

TEST(FitCapacity, NoKneeInRange) {
  const CapacityPoint point = capacity_of(isolated_file(Truth(), 132, {1, 2, 4, 8, 12, 16}));
  EXPECT_FALSE(point.capacity_bytes.value);
  EXPECT_THAT(point.capacity_bytes.reason, HasSubstr("no knee up to 16384 bytes per producer"));
}

TEST(FitCapacity, TooFewPointsBeyondTheKnee) {
  const CapacityPoint point = capacity_of(isolated_file(Truth(), 132, {1, 2, 4, 8, 48, 64}));
  EXPECT_FALSE(point.capacity_bytes.value);
  EXPECT_THAT(point.capacity_bytes.reason, HasSubstr("2 points beyond the knee, at least 3 needed"));
}

TEST(FitCapacity, RefusesASlopeThatIsNotTheDrains) {
  Truth slower;
  slower.drain = 250000;
  const CapacityPoint point = capacity_of(isolated_file(slower, 132, sizes));
  EXPECT_FALSE(point.capacity_bytes.value);
  EXPECT_THAT(point.capacity_bytes.reason, HasSubstr("rises by 1.49/R per byte"));  // 372.5 / 250
}

TEST(FitCapacity, RefusesANegativeCapacity) {
  Truth negative;
  negative.capacity_per_producer = -4096;
  const CapacityPoint point = capacity_of(isolated_file(negative, 132, sizes));
  EXPECT_FALSE(point.capacity_bytes.value);
  EXPECT_THAT(point.capacity_bytes.reason, HasSubstr("-540672 bytes, and a capacity is not negative"));  // 132 x -4096
}

TEST(FitCapacity, PassesOnWhatIsMissing) {
  const SamplesFile file = isolated_file(Truth(), 132, sizes);
  const std::vector<CapacityPoint> points = fit_capacity(plain_rows(file), {}, {}, "R is unknown");
  ASSERT_EQ(points.size(), 1U);
  EXPECT_FALSE(points.front().capacity_bytes.value);
  EXPECT_EQ(points.front().capacity_bytes.reason, "R is unknown");
}

TEST(FitCapacity, FreeRunningIsolatedRowsDoNotCount) {
  SamplesFile file = isolated_file(Truth(), 132, sizes);
  for (BurstSample& sample : file.samples) {
    sample.experiment.regime = Regime::free_running;
  }
  EXPECT_TRUE(fit_capacity(plain_rows(file), true_rates, true_floor(), "").empty());
}

/// Q near 3 MiB at K = 132 (tests/data/first_measurement_h200x2.csv: knee at about 24 KiB per producer, V of about 3.1
/// MiB). With few of many SMs the mean issue time of very long bursts falls behind V/R, as producers end one after the
/// other: no Q at K = 33.
TEST(FitCapacity, ReadsTheFirstMeasurement) {
  const Platform platform = fit(test::first_measurement());
  const std::vector<CapacityPoint>& points = path_profile(platform, StorePath::store16).capacity;
  ASSERT_EQ(points.size(), 4U);
  EXPECT_THAT(points[0].capacity_bytes.reason, HasSubstr("8 producers of"));
  EXPECT_THAT(points[1].capacity_bytes.reason, HasSubstr("not by 1/R within 17%"));
  constexpr double mebibyte = 1024.0 * 1024;
  EXPECT_EQ(points[3].producers, 132);
  ASSERT_TRUE(points[3].capacity_bytes.value) << points[3].capacity_bytes.reason;
  EXPECT_GT(*points[3].capacity_bytes.value, 2.75 * mebibyte);
  EXPECT_LT(*points[3].capacity_bytes.value, 3.25 * mebibyte);
  EXPECT_NEAR(points[3].knee_bytes_per_producer, 24 * 1024, 2 * 1024);
  EXPECT_LT(points[3].median_error, 0.05);
}

}  // namespace
}  // namespace xstage::calibrate::fit_capacity_test
