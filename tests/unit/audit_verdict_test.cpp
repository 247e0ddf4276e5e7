/// Verdicts, margins and prices of the audit. Numbers by hand from the platform of audit_platform.hpp.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <ostream>

#include "unit/audit_platform.hpp"
#include "xstage/error.hpp"

namespace xstage::audit_verdict_test {
namespace {

constexpr double tolerance = 1e-9;

TEST(AuditVerdict, LongGapPassesFreeRunningButNotAlignedBeyondTheCapacity) {
  const Audit result = audit(round_platform(), round_workload(20));
  EXPECT_EQ(result.free_running.verdict, Verdict::piggyback);
  EXPECT_NEAR(result.free_running.test.rate_margin_us, 20 - 9.74, tolerance);
  EXPECT_NEAR(result.free_running.issue_us, 0.5, tolerance);
  EXPECT_EQ(result.free_running.stall_share, 0);
  EXPECT_EQ(result.aligned.verdict, Verdict::reshape);
  EXPECT_NEAR(result.aligned.test.capacity_margin_bytes, 3e6 - 3.896e6, tolerance);
  EXPECT_NEAR(result.aligned.issue_us, 2.74, tolerance);
  EXPECT_NEAR(result.aligned.rate_price_us, 0, tolerance);
  EXPECT_NEAR(result.aligned.capacity_price_us, 2.24, tolerance);
  EXPECT_NEAR(result.aligned.stall_share, 2.24 / 22.74, tolerance);
  EXPECT_NEAR(result.aligned.completion_coupled_period_us, 30.24, tolerance);
}

TEST(AuditVerdict, ShortGapPaysTheRateFirstAndTheCapacityOnlyForTheRest) {
  // G = 8: the rate costs 9.74 - 8 = 1.74, the capacity 2.24 in all, so 0.5 on top of the rate's.
  const Audit result = audit(round_platform(), round_workload(8));
  EXPECT_EQ(result.free_running.verdict, Verdict::reshape);
  EXPECT_NEAR(result.free_running.rate_price_us, 1.74, tolerance);
  EXPECT_NEAR(result.free_running.period_us, 10.24, tolerance);
  EXPECT_NEAR(result.aligned.rate_price_us, 1.74, tolerance);
  EXPECT_NEAR(result.aligned.capacity_price_us, 0.5, tolerance);
  // G = 1: the rate costs 8.74, more than the capacity alone.
  const Audit shorter = audit(round_platform(), round_workload(1));
  EXPECT_NEAR(shorter.aligned.rate_price_us, 8.74, tolerance);
  EXPECT_NEAR(shorter.aligned.capacity_price_us, 0, tolerance);
}

TEST(AuditVerdict, AlignedPricesAddUpToTheModelsSteadyState) {
  for (const double gap_us : {0.0, 1.0, 5.0, 7.49, 7.51, 9.74, 12.0, 100.0}) {
    for (const double bytes : {1600.0, 16000.0, 24000.0, 32000.0, 64000.0}) {
      Workload workload = round_workload(gap_us);
      workload.bytes = bytes;
      const Audit result = audit(round_platform(), workload);
      const model::OperatingPoint& point = result.all_producers;
      EXPECT_NEAR(result.aligned.issue_us, model::aligned::issue_us(point, gap_us), tolerance)
          << gap_us << ' ' << bytes;
      EXPECT_NEAR(result.free_running.issue_us, model::free_running::issue_us(point, gap_us), tolerance);
      EXPECT_EQ(result.aligned.verdict == Verdict::piggyback, result.aligned.issue_us <= point.issue_floor_us + 1e-12);
    }
  }
}

TEST(AuditVerdict, StaggeredProducersMeetTheCapacityBoundWithTheirOwnVolumeOnly) {
  // 80 of 128 coincide: Q(80) = 2,000,000 by interpolation; q_peak0 = 80*32000 - 200000 = 2,360,000.
  Workload workload = round_workload(20);
  workload.coincident_producers = 80;
  const Audit result = audit(round_platform(), workload);
  EXPECT_NEAR(result.aligned.test.capacity_margin_bytes, 2.0e6 - 2.36e6, 1e-6);
  EXPECT_NEAR(result.aligned.test.rate_margin_us, 20 - 9.74, tolerance);
  EXPECT_NEAR(result.aligned.capacity_price_us, (2.56e6 - 2.0e6) / 4e5 - 0.5, tolerance);
}

TEST(AuditVerdict, FreeRunningProducersAreNotBoundByTheCapacity) {
  const Audit result = audit(round_platform(), round_workload(20));
  EXPECT_TRUE(std::isinf(result.free_running.test.capacity_margin_bytes));
  EXPECT_EQ(result.free_running.capacity_price_us, 0);
}

TEST(AuditVerdict, ProducersSlowerThanTheFabricHaveNoCapacityBound) {
  // 4 producers store at 200 GB/s at most: nothing piles up in the fabric. V/R(4) = 0.64 us, G* = 0.14 us.
  Workload workload = round_workload(1);
  workload.producers = 4;
  const Audit result = audit(round_platform(), workload);
  EXPECT_EQ(result.aligned.verdict, Verdict::piggyback);
  EXPECT_TRUE(std::isinf(result.aligned.test.capacity_margin_bytes));
  EXPECT_NEAR(result.aligned.test.rate_margin_us, 1 - 0.14, tolerance);
}

TEST(AuditVerdict, UnknownCapacityDecidesOnlyWhatTheRateDecides) {
  Platform platform = round_platform();
  platform.paths[0].capacity = {{128, unknown("no knee"), not_measured, not_measured}};
  const Audit passing_rate = audit(platform, round_workload(20));
  EXPECT_EQ(passing_rate.free_running.verdict, Verdict::piggyback);
  EXPECT_EQ(passing_rate.aligned.verdict, Verdict::cannot_decide);
  ASSERT_FALSE(passing_rate.aligned.reasons.empty());
  EXPECT_NE(passing_rate.aligned.reasons[0].find("no knee"), std::string::npos);
  EXPECT_TRUE(std::isnan(passing_rate.aligned.issue_us));
  const Audit failing_rate = audit(platform, round_workload(5));
  EXPECT_EQ(failing_rate.aligned.verdict, Verdict::reshape);
  EXPECT_NEAR(failing_rate.aligned.rate_price_us, 4.74, tolerance);
  EXPECT_TRUE(std::isnan(failing_rate.aligned.capacity_price_us));
}

TEST(AuditVerdict, UnknownCapacityIsNotNeededWhereNothingStaysOutstanding) {
  // 128 x 1,600 bytes drain in 0.512 us, T_iss0 = 0.5: 4,800 bytes stay. 128 x 1,552: 0.49664 us, nothing does.
  Platform platform = round_platform();
  platform.paths[0].capacity = {{128, unknown("no knee"), not_measured, not_measured}};
  platform.paths[0].issue_floor = {{1552, 0.5}, {64000, 0.5}};
  Workload workload = round_workload(20);
  workload.bytes = 1600;
  EXPECT_EQ(audit(platform, workload).aligned.verdict, Verdict::cannot_decide);
  workload.bytes = 1552;
  EXPECT_EQ(audit(platform, workload).aligned.verdict, Verdict::piggyback);
}

TEST(AuditVerdict, UnknownDrainRateDecidesNothing) {
  Platform platform = round_platform();
  platform.paths[0].drain_gb_per_s = unknown("too few drain-bound points");
  const Audit result = audit(platform, round_workload(20));
  EXPECT_EQ(result.aligned.verdict, Verdict::cannot_decide);
  EXPECT_EQ(result.free_running.verdict, Verdict::cannot_decide);
  ASSERT_FALSE(result.free_running.reasons.empty());
  EXPECT_NE(result.free_running.reasons[0].find("too few drain-bound points"), std::string::npos);
  EXPECT_FALSE(result.free_running.test.rate_holds());
  EXPECT_TRUE(result.flips.empty());
}

/// The paper (section 4.1 and the platform of section 3): 148 aligned attention tiles of 32 KB pass the capacity test.
TEST(AuditVerdict, PaperPlatformPassesAlignedAttentionTiles) {
  Platform platform = round_platform();
  platform.node.devices[0].multiprocessors = 148;
  PathProfile& path = platform.paths[0];
  path.drain_gb_per_s = known(717);
  path.issue_floor = {{32768, 0.76}};
  path.capacity = {{148, known(4.25 * 1048576), not_measured, not_measured}};
  Workload workload = round_workload(20);
  workload.producers = 148;
  workload.bytes = 32768;
  const Audit result = audit(platform, workload);
  EXPECT_EQ(result.aligned.verdict, Verdict::piggyback);
  EXPECT_GT(result.aligned.test.capacity_margin_bytes, 0);
}

TEST(AuditVerdict, VerdictsHaveNames) {
  EXPECT_EQ(name_of(Verdict::piggyback), "piggyback");
  EXPECT_EQ(name_of(Verdict::reshape), "reshape");
  EXPECT_EQ(name_of(Verdict::cannot_decide), "cannot decide");
}

/// The rule that each broken workload names.
struct BrokenWorkload {
  const char* rule;
  void (*damage)(Workload&);
};

/// GoogleTest prints parameters with it.
std::ostream& operator<<(std::ostream& out, const BrokenWorkload& broken) { return out << broken.rule; }

class AuditInput : public testing::TestWithParam<BrokenWorkload> {};

TEST_P(AuditInput, NamesTheRuleThatTheWorkloadBreaks) {
  Workload workload = round_workload(20);
  GetParam().damage(workload);
  try {
    static_cast<void>(audit(round_platform(), workload));
    FAIL() << "accepted";
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find(GetParam().rule), std::string::npos) << error.what();
  }
}

constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();
constexpr double infinite = std::numeric_limits<double>::infinity();

INSTANTIATE_TEST_SUITE_P(
    EveryRule, AuditInput,
    testing::Values(BrokenWorkload{"producers = 0", [](Workload& w) { w.producers = 0; }},
                    BrokenWorkload{"producers 133", [](Workload& w) { w.producers = 133; }},
                    BrokenWorkload{"coincident producers = 129", [](Workload& w) { w.coincident_producers = 129; }},
                    BrokenWorkload{"coincident producers = -1", [](Workload& w) { w.coincident_producers = -1; }},
                    BrokenWorkload{"bytes = 0", [](Workload& w) { w.bytes = 0; }},
                    BrokenWorkload{"bytes = 32000.5", [](Workload& w) { w.bytes = 32000.5; }},
                    BrokenWorkload{"bytes = nan", [](Workload& w) { w.bytes = nan_value; }},
                    BrokenWorkload{"bytes = inf", [](Workload& w) { w.bytes = infinite; }},
                    BrokenWorkload{"divisible by 16", [](Workload& w) { w.bytes = 32008; }},
                    BrokenWorkload{"gap = -1", [](Workload& w) { w.gap_us = -1; }},
                    BrokenWorkload{"gap = nan", [](Workload& w) { w.gap_us = nan_value; }},
                    BrokenWorkload{"staging slots = 0", [](Workload& w) { w.staging_slots = 0; }},
                    BrokenWorkload{"store path bulk", [](Workload& w) { w.path = StorePath::bulk; }}));

}  // namespace
}  // namespace xstage::audit_verdict_test
