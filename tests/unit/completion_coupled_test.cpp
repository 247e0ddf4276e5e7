/// The counterfactual that waits for completion is never faster than what it is compared with, whatever the profile.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <random>

#include "unit/audit_platform.hpp"
#include "xstage/model.hpp"
#include "xstage/platform.hpp"

namespace xstage::completion_coupled_test {
namespace {

/// Uniform; the standard's distributions give other numbers on other libraries.
class Random {
 public:
  double between(double low, double high) { return low + (high - low) * (static_cast<double>(engine_()) * 0x1p-32); }
  int integer(int low, int high) { return low + static_cast<int>(engine_() % static_cast<unsigned>(high - low + 1)); }

 private:
  std::mt19937 engine_{7};
};

/// A profile of any shape: issue times that rise with the bytes, producers that are faster or slower than the fabric.
Platform random_platform(Random& random) {
  Platform platform = round_platform();
  PathProfile& path = platform.paths.front();
  path.drain_gb_per_s = known(random.between(20, 1000));
  path.producer_drain_gb_per_s = known(random.between(1, 100));
  path.issue_floor.clear();
  double bytes = 16.0 * random.integer(1, 1000);
  double issue_us = random.between(0.05, 10);
  for (int points = random.integer(1, 6); points > 0; --points) {
    path.issue_floor.push_back({bytes, issue_us});
    bytes += 16.0 * random.integer(1, 4000);
    issue_us += random.between(0, 3);
  }
  path.capacity = {{1, known(random.between(1, 1e6)), not_measured, not_measured},
                   {132, known(random.between(1, 1e7)), not_measured, not_measured}};
  return platform;
}

/// The period of a train is a sum that was rounded elsewhere.
constexpr double rounding = 1e-12;

void expect_waiting_is_no_faster(const model::OperatingPoint& point, double gap_us) {
  const double waiting_us = model::completion_coupled::period_us(point, gap_us);
  EXPECT_GE(waiting_us, model::free_running::period_us(point, gap_us));
  EXPECT_GE(waiting_us, model::aligned::period_us(point, gap_us) * (1 - rounding));
  EXPECT_GE(model::completion_coupled::fixed_work_period_us(point, gap_us), waiting_us);
  EXPECT_GE(model::completion_coupled::fixed_work_period_us(point, gap_us),
            model::free_running::fixed_work_period_us(point, gap_us));
  double backlog = 0;
  for (int burst = 0; burst < 10; ++burst) {
    const model::aligned::BurstOutcome outcome = model::aligned::next_burst(point, gap_us, backlog);
    backlog = outcome.backlog_at_end_bytes;
    EXPECT_GE(waiting_us, (outcome.issue_us + gap_us) * (1 - rounding)) << "burst " << burst;
  }
}

TEST(CompletionCoupled, IsNeverFasterThanNotWaiting) {
  Random random;
  int slow_issue = 0;
  int slow_drain = 0;
  for (int index = 0; index < 5000; ++index) {
    const Platform platform = random_platform(random);
    const double bytes = 16.0 * random.integer(1, 20000);
    const OperatingPointOrReason found = operating_point(platform, StorePath::store16, random.integer(1, 132), bytes);
    ASSERT_TRUE(found.usable && found.capacity_known);
    const double drain_us = model::drain_time_us(found.point);
    (found.point.issue_floor_us > drain_us ? slow_issue : slow_drain) += 1;
    for (const double gap_us : {0.0, random.between(0, drain_us), random.between(0, 100)}) {
      expect_waiting_is_no_faster(found.point, gap_us);
    }
    ASSERT_FALSE(HasFailure()) << "case " << index << ": " << bytes << " bytes";
  }
  EXPECT_GT(slow_issue, 500);  // both cases occur often
  EXPECT_GT(slow_drain, 500);
}

}  // namespace
}  // namespace xstage::completion_coupled_test
