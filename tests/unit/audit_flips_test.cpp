/// The values at which a verdict flips: by hand on the platform of audit_platform.hpp, and by asking the audit itself
/// on either side of each.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "unit/audit_platform.hpp"

namespace xstage::audit_flips_test {
namespace {

const Flip& flip_of(const Audit& audit, Regime regime, const std::string& knob) {
  const auto found = std::find_if(audit.flips.begin(), audit.flips.end(),
                                  [&](const Flip& flip) { return flip.regime == regime && flip.knob == knob; });
  if (found == audit.flips.end()) {
    throw std::runtime_error("no flip of " + knob);
  }
  return *found;
}

const RegimeAudit& regime_of(const Audit& audit, Regime regime) {
  return regime == Regime::aligned ? audit.aligned : audit.free_running;
}

Verdict verdict_with(Workload workload, Regime regime, const std::string& knob, double value) {
  if (knob == "gap") {
    workload.gap_us = value;
  } else if (knob == "tile bytes") {
    workload.bytes = value;
  } else if (knob == "producers") {
    workload.producers = static_cast<int>(value);
    workload.coincident_producers = std::min(workload.coincident_producers, workload.producers);
  } else {
    workload.coincident_producers = static_cast<int>(value);
  }
  return regime_of(audit(round_platform(), workload), regime).verdict;
}

TEST(AuditFlips, GapFlipsAtTheRecoveryGap) {
  const Audit passing = audit(round_platform(), round_workload(20));
  EXPECT_NEAR(*flip_of(passing, Regime::free_running, "gap").flips_at, 9.74, 1e-9);
  const Audit failing = audit(round_platform(), round_workload(3));
  EXPECT_NEAR(*flip_of(failing, Regime::free_running, "gap").flips_at, 9.74, 1e-9);
}

TEST(AuditFlips, NoGapHelpsAgainstTheCapacity) {
  const Audit result = audit(round_platform(), round_workload(20));
  const Flip& flip = flip_of(result, Regime::aligned, "gap");
  EXPECT_FALSE(flip.flips_at);
  EXPECT_NE(flip.meaning.find("capacity"), std::string::npos);
}

TEST(AuditFlips, TileBytesFlipOnTheStoreGrid) {
  // Aligned, G = 20: V - R*0.5 <= Q, so B <= 3,200,000 / 128 = 25,000, on the grid of 16 bytes 24,992.
  const Audit result = audit(round_platform(), round_workload(20));
  EXPECT_EQ(*flip_of(result, Regime::aligned, "tile bytes").flips_at, 24992);
  // Free-running: V/R <= 20.5, so B <= 8,200,000 / 128 = 64,062.5; the first that fails is 64,064.
  EXPECT_EQ(*flip_of(result, Regime::free_running, "tile bytes").flips_at, 64064);
}

TEST(AuditFlips, ProducersFlipExactly) {
  // Free-running, G = 3: K * 32,000 / 400,000 <= 3.5, so K <= 43.75.
  const Audit result = audit(round_platform(), round_workload(3));
  EXPECT_EQ(*flip_of(result, Regime::free_running, "producers").flips_at, 43);
}

TEST(AuditFlips, StaggeringFlipsWhatTheCapacityForbids) {
  // Q(k) = 1,000,000 + (k - 32) * 2,000,000 / 96 and q_peak0 = 32,000 k - 200,000 meet at k = 47.7.
  const Audit result = audit(round_platform(), round_workload(20));
  EXPECT_EQ(*flip_of(result, Regime::aligned, "coincident producers").flips_at, 47);
}

TEST(AuditFlips, StaggeringDoesNotHelpAgainstTheRate) {
  const Audit result = audit(round_platform(), round_workload(3));
  EXPECT_FALSE(flip_of(result, Regime::aligned, "coincident producers").flips_at);
}

TEST(AuditFlips, StaggeringIsNoKnobOfFreeRunningProducers) {
  const Audit result = audit(round_platform(), round_workload(20));
  EXPECT_THROW(static_cast<void>(flip_of(result, Regime::free_running, "coincident producers")), std::runtime_error);
}

TEST(AuditFlips, BeyondTheCalibratedProducersTheProfileCannotDecide) {
  // Q is calibrated up to 128 producers; 24,000 bytes pass there.
  Workload workload = round_workload(20);
  workload.bytes = 24000;
  const Audit result = audit(round_platform(), workload);
  ASSERT_EQ(result.aligned.verdict, Verdict::piggyback);
  const Flip& flip = flip_of(result, Regime::aligned, "producers");
  EXPECT_EQ(*flip.flips_at, 129);
  EXPECT_NE(flip.meaning.find("beyond what the profile can decide"), std::string::npos) << flip.meaning;
}

TEST(AuditFlips, CountsWithoutAnAnswerAreNamedOnTheWayToOneThatPasses) {
  // Q is known at 128 only; below 8 producers nothing piles up. 8 x 50 GB/s is the fabric's rate itself.
  Platform platform = round_platform();
  platform.paths[0].capacity = {{128, known(3e6), not_measured, not_measured}};
  const Audit result = audit(platform, round_workload(20));
  const Flip& flip = flip_of(result, Regime::aligned, "coincident producers");
  EXPECT_EQ(*flip.flips_at, 7);
  EXPECT_NE(flip.meaning.find("cannot decide 8 to 127"), std::string::npos) << flip.meaning;
}

/// One step of the knob from the flip towards the workload's own value.
double step_back(const Flip& flip) {
  const double value = *flip.flips_at;
  if (flip.knob == "gap") {
    return std::nextafter(value, flip.current);
  }
  const double step = flip.knob == "tile bytes" ? 16 : 1;
  return value < flip.current ? value + step : value - step;
}

TEST(AuditFlips, TheAuditAgreesOnBothSidesOfEveryFlip) {
  int checked = 0;
  for (const double gap_us : {0.0, 0.3, 3.0, 9.0, 12.0, 40.0}) {
    for (const int producers : {1, 4, 20, 64, 128}) {
      for (const double bytes : {16.0, 16000.0, 32000.0, 128000.0}) {
        Workload workload = round_workload(gap_us);
        workload.producers = producers;
        workload.bytes = bytes;
        const Audit result = audit(round_platform(), workload);
        for (const Flip& flip : result.flips) {
          if (!flip.flips_at) {
            continue;
          }
          ++checked;
          const bool passes = regime_of(result, flip.regime).verdict == Verdict::piggyback;
          const Verdict there = verdict_with(workload, flip.regime, flip.knob, *flip.flips_at);
          const Verdict before = verdict_with(workload, flip.regime, flip.knob, step_back(flip));
          const bool is_gap_boundary = passes && flip.knob == "gap";  // the last gap that passes is named there
          EXPECT_EQ(there == Verdict::piggyback, passes == is_gap_boundary) << flip.knob << ' ' << *flip.flips_at;
          EXPECT_EQ(before == Verdict::piggyback, passes) << flip.knob << ' ' << *flip.flips_at;
        }
      }
    }
  }
  EXPECT_GT(checked, 100);
}

}  // namespace
}  // namespace xstage::audit_flips_test
