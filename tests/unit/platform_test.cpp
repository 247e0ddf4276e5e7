/// A profile evaluated at K and B: what it knows, what it interpolates, and what it refuses to guess.

#include "xstage/platform.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "unit/files_examples.hpp"
#include "xstage/error.hpp"

namespace xstage::platform_test {
namespace {

using examples::known;
using examples::refusal;
using examples::unknown;

/// R 372 GB/s, 50 GB/s a producer (8 producers reach R), Q known at 64 and 128.
Platform profile() {
  PathProfile path;
  path.drain_gb_per_s = known(372);
  path.producer_drain_gb_per_s = known(50);
  path.issue_floor = {{1024, 0.2}, {2048, 0.25}, {4096, 0.45}};
  path.capacity = {{16, unknown("no knee up to 64 KiB"), not_measured, not_measured},
                   {64, known(2e6), 32768, 0.01},
                   {128, known(3e6), 24576, 0.01}};
  Platform platform;
  platform.node = examples::two_gpus();
  platform.paths = {path};
  return platform;
}

OperatingPointOrReason at(const Platform& platform, int producers, double bytes) {
  return operating_point(platform, StorePath::store16, producers, bytes);
}

bool mentions(const std::vector<std::string>& reasons, std::string_view text) {
  return std::any_of(reasons.begin(), reasons.end(),
                     [&](const std::string& reason) { return reason.find(text) != std::string::npos; });
}

TEST(OperatingPoint, a_fully_calibrated_point) {
  const OperatingPointOrReason found = at(profile(), 128, 2048);
  EXPECT_TRUE(found.usable && found.capacity_known);
  EXPECT_TRUE(found.reasons.empty());
  EXPECT_EQ(found.point.volume_bytes, 128 * 2048);
  EXPECT_EQ(found.point.drain_bytes_per_us, 372e3);  // 1 GB/s = 1000 bytes/us
  EXPECT_EQ(found.point.issue_floor_us, 0.25);
  EXPECT_EQ(found.point.capacity_bytes, 3e6);
}

TEST(OperatingPoint, names_the_fitted_size_beyond_which_it_extrapolates) {
  for (const double fitted : {1024.0, 1040.0, 4096.0}) {
    EXPECT_TRUE(std::isnan(at(profile(), 128, fitted).extrapolated_beyond_bytes));
    EXPECT_TRUE(std::isnan(at(profile(), 128, fitted).extrapolated_below_bytes));
  }
  EXPECT_EQ(at(profile(), 128, 4112).extrapolated_beyond_bytes, 4096);
  EXPECT_TRUE(std::isnan(at(profile(), 128, 4112).extrapolated_below_bytes));
  EXPECT_EQ(at(profile(), 128, 1008).extrapolated_below_bytes, 1024);
  EXPECT_TRUE(std::isnan(at(profile(), 128, 1008).extrapolated_beyond_bytes));
}

TEST(OperatingPoint, few_producers_are_bound_by_their_own_rate_and_leave_nothing_outstanding) {
  const OperatingPointOrReason found = at(profile(), 7, 2048);
  EXPECT_EQ(found.point.drain_bytes_per_us, 350e3);
  EXPECT_TRUE(found.capacity_known);
  EXPECT_EQ(found.point.capacity_bytes, std::numeric_limits<double>::infinity());
}

TEST(OperatingPoint, capacity_is_interpolated_between_calibrated_producer_counts) {
  EXPECT_DOUBLE_EQ(at(profile(), 80, 2048).point.capacity_bytes, 2.25e6);
  EXPECT_EQ(at(profile(), 64, 2048).point.capacity_bytes, 2e6);
}

TEST(OperatingPoint, capacity_is_never_extrapolated) {
  const OperatingPointOrReason above = at(profile(), 132, 2048);
  EXPECT_TRUE(above.usable);
  EXPECT_FALSE(above.capacity_known);
  EXPECT_TRUE(mentions(above.reasons, "calibrated from 16 to 128 producers")) << above.reasons.front();
  EXPECT_FALSE(at(profile(), 8, 2048).capacity_known);
}

TEST(OperatingPoint, a_neighbour_without_capacity_lends_its_reason) {
  for (const int producers : {16, 17, 63}) {
    const OperatingPointOrReason found = at(profile(), producers, 2048);
    EXPECT_FALSE(found.capacity_known) << producers;
    EXPECT_TRUE(mentions(found.reasons, "no knee up to 64 KiB")) << producers;
  }
}

TEST(OperatingPoint, unknown_drain_rate_or_issue_floor_makes_a_point_unusable) {
  Platform platform = profile();
  platform.paths[0].drain_gb_per_s = unknown("one drain-bound point");
  EXPECT_FALSE(at(platform, 128, 2048).usable);
  EXPECT_TRUE(mentions(at(platform, 128, 2048).reasons, "one drain-bound point"));
  platform = profile();
  platform.paths[0].issue_floor.clear();
  platform.paths[0].issue_floor_reason = "every burst waited";
  EXPECT_FALSE(at(platform, 128, 2048).usable);
  EXPECT_TRUE(mentions(at(platform, 128, 2048).reasons, "every burst waited"));
}

TEST(OperatingPoint, without_a_producer_rate_a_knee_at_no_more_producers_proves_the_fabric_bound) {
  Platform platform = profile();
  platform.paths[0].producer_drain_gb_per_s = unknown("not published");
  EXPECT_TRUE(at(platform, 64, 2048).usable);
  EXPECT_EQ(at(platform, 64, 2048).point.drain_bytes_per_us, 372e3);
  EXPECT_FALSE(at(platform, 63, 2048).usable);
  EXPECT_TRUE(mentions(at(platform, 63, 2048).reasons, "not published"));
}

TEST(OperatingPoint, input_rules) {
  const Platform platform = profile();
  const auto refused = [&](int producers, double bytes) {
    return refusal([&] { (void)at(platform, producers, bytes); });
  };
  EXPECT_EQ(refused(0, 2048), "producers 0: must be from 1 to 132, the multiprocessors of a device of h200x2");
  EXPECT_EQ(refused(132, 2048), "<accepted>");
  EXPECT_NE(refused(133, 2048).find("producers 133"), std::string::npos);
  EXPECT_EQ(refused(1, 24),
            "bytes per producer 24: must be from 1 to 2^50 and divisible by 16, the store width of store16");
  for (const double bytes : {0.0, -16.0, 16.5, not_measured, std::numeric_limits<double>::infinity(), 0x1p51}) {
    EXPECT_NE(refused(1, bytes), "<accepted>") << bytes;
  }
}

TEST(OperatingPoint, a_path_that_was_not_calibrated_is_an_error) {
  EXPECT_EQ(refusal([] { (void)operating_point(profile(), StorePath::bulk, 1, 2048); }),
            "store path bulk: the profile of h200x2 does not hold it; calibrate it first");
}

// ---- T_iss0
// ----------------------------------------------------------------------------------------------------------

const std::vector<IssueFloorPoint> three_points{{1000, 0.2}, {2000, 0.25}, {4000, 0.45}};

TEST(IssueFloor, is_linear_between_points) {
  EXPECT_DOUBLE_EQ(issue_floor_us(three_points, 1500), 0.225);
  EXPECT_DOUBLE_EQ(issue_floor_us(three_points, 3000), 0.35);
  for (const IssueFloorPoint& point : three_points) {
    EXPECT_DOUBLE_EQ(issue_floor_us(three_points, point.bytes_per_producer), point.issue_us);
  }
}

TEST(IssueFloor, goes_on_with_the_last_slope_but_never_falls) {
  EXPECT_DOUBLE_EQ(issue_floor_us(three_points, 8000), 0.85);  // 0.45 + 4000 * 0.2 / 2000
  EXPECT_EQ(issue_floor_us({{1000, 0.3}, {2000, 0.2}}, 1e9), 0.2);
}

TEST(IssueFloor, below_the_first_point_follows_the_first_segment_within_its_bounds) {
  EXPECT_DOUBLE_EQ(issue_floor_us(three_points, 500), 0.175);               // 0.2 - 500 * 0.05 / 1000
  EXPECT_DOUBLE_EQ(issue_floor_us({{1000, 0.1}, {2000, 0.9}}, 500), 0.05);  // steep: not below proportion
  EXPECT_DOUBLE_EQ(issue_floor_us({{1000, 0.3}, {2000, 0.2}}, 500), 0.3);   // falling: not above the first
}

TEST(IssueFloor, of_one_point_promises_the_less_on_either_side) {
  EXPECT_DOUBLE_EQ(issue_floor_us({{1000, 0.2}}, 500), 0.1);
  EXPECT_DOUBLE_EQ(issue_floor_us({{1000, 0.2}}, 9000), 0.2);
}

}  // namespace
}  // namespace xstage::platform_test
