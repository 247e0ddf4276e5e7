/// The Burst-Gap equations: golden numbers of the paper's and the first measured platform, hand calculations, and
/// properties that hold for all parameters.

#include "xstage/model.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace xstage::model::model_test {
namespace {

constexpr double kib = 1024;
constexpr double mib = 1024 * 1024;

/// Uniform in [low, high); the standard's distributions give other numbers on other libraries.
class Random {
 public:
  double between(double low, double high) { return low + (high - low) * (static_cast<double>(engine_()) * 0x1p-32); }
  int integer(int low, int high) { return low + static_cast<int>(engine_() % static_cast<unsigned>(high - low + 1)); }
  OperatingPoint point() { return {between(1e4, 5e7), between(0.05, 20), between(2e4, 1e6), between(0, 2e7)}; }

 private:
  std::mt19937 engine_{1};
};

constexpr int random_cases = 10000;

/// Round numbers for calculations by hand: V/R = 10 us, Q/R = 4 us.
constexpr OperatingPoint round_numbers{
    .volume_bytes = 1000, .issue_floor_us = 2, .drain_bytes_per_us = 100, .capacity_bytes = 400};

// The model is constant-expression code: no allocation, no state, no input or output.
static_assert(free_running::period_us(round_numbers, 3) == 10);
static_assert(aligned::period_us(round_numbers, 3) == 10);
static_assert(design_test(round_numbers, 8).rate_holds());
static_assert(noexcept(aligned::next_burst(round_numbers, 3, 0)));

// ---- the paper's platform: R = 717 GB/s, K = 148, T_iss0 = 0.76 us, knee at 33 KB a producer
// -------------------------

constexpr double paper_drain_bytes_per_us = 717e3;
constexpr double paper_issue_floor_us = 0.76;
constexpr double paper_producers = 148;

TEST(PaperPlatform, the_papers_kilobyte_is_1024_bytes) {
  // "33 KB per producer = 4.77 MiB aggregate": with 1000 bytes it would be 4.66 MiB.
  EXPECT_NEAR(paper_producers * 33 * kib / mib, 4.77, 0.005);
  EXPECT_NEAR(paper_producers * 33 * 1000 / mib, 4.66, 0.005);
}

TEST(PaperPlatform, capacity_from_the_knee_is_4_25_mebibytes) {
  const double capacity =
      capacity_from_knee_bytes(paper_producers * 33 * kib, paper_drain_bytes_per_us, paper_issue_floor_us);
  EXPECT_NEAR(capacity / mib, 4.25, 0.005);
}

TEST(PaperPlatform, aligned_attention_tiles_of_32_kb_pass_the_capacity_test) {
  OperatingPoint tiles{paper_producers * 32 * kib, paper_issue_floor_us, paper_drain_bytes_per_us, 4.25 * mib};
  EXPECT_NEAR(tiles.volume_bytes / mib, 4.6, 0.05);
  EXPECT_TRUE(design_test(tiles, 0).capacity_holds());
  // By hand: 4.625 MiB - 717e3 * 0.76 bytes = 4.105 MiB outstanding, 0.145 MiB below Q.
  EXPECT_NEAR(design_test(tiles, 0).capacity_margin_bytes / mib, 0.145, 0.001);
  EXPECT_EQ(isolated_issue_us(tiles), paper_issue_floor_us);
  tiles.volume_bytes = paper_producers * 34 * kib;  // beyond the knee
  EXPECT_FALSE(design_test(tiles, 0).capacity_holds());
}

TEST(PaperPlatform, recovery_gap_of_attention_tiles) {
  const OperatingPoint tiles{paper_producers * 32 * kib, paper_issue_floor_us, paper_drain_bytes_per_us, 4.25 * mib};
  // By hand: 4,849,664 bytes / 717,000 bytes per us = 6.764 us; less 0.76 us.
  EXPECT_NEAR(recovery_gap_us(tiles), 6.004, 0.001);
}

// ---- two H200, first measurement: R 372-373 GB/s, knee 24 KiB at K = 132, T_iss0(24 KiB) 0.35 us
// ---------------------

TEST(TwoH200, aligned_bursts_of_128_kib_take_38_1_us) {
  constexpr double drain = 372.5e3;
  OperatingPoint point{132 * 128 * kib, 0.35, drain, capacity_from_knee_bytes(132 * 24 * kib, drain, 0.35)};
  const double measured_gap_us = 9.2;  // longer than Q/R = 8.36 us: the X-Stage is empty when a burst starts
  EXPECT_NEAR(aligned::issue_us(point, measured_gap_us), 38.1, 0.05);
  EXPECT_NEAR(isolated_issue_us(point), 38.1, 0.05);
}

TEST(TwoH200, free_running_gap_sweep_of_32_kib) {
  // V/R = 11.6 us: the issue time falls by the gap until it meets its floor.
  const OperatingPoint point{132 * 32 * kib, 0.53, 372.5e3, 3 * mib};
  EXPECT_NEAR(free_running::period_us(point, 0), 11.6, 0.05);
  EXPECT_NEAR(free_running::issue_us(point, 4), 7.6, 0.05);
  EXPECT_EQ(free_running::issue_us(point, 24), 0.53);
  EXPECT_EQ(free_running::period_us(point, 24), 24.53);
}

// ---- every equation by hand
// ------------------------------------------------------------------------------------------

TEST(Equations, quantities_of_one_burst) {
  EXPECT_EQ(drain_time_us(round_numbers), 10);
  EXPECT_EQ(recovery_gap_us(round_numbers), 8);
  EXPECT_EQ(peak_outstanding_bytes(round_numbers), 800);
  EXPECT_EQ(isolated_issue_us(round_numbers), 6);
}

TEST(Equations, nothing_is_negative_for_a_burst_that_drains_while_it_issues) {
  constexpr OperatingPoint slow_issue{1000, 12, 100, 400};
  EXPECT_EQ(recovery_gap_us(slow_issue), 0);
  EXPECT_EQ(peak_outstanding_bytes(slow_issue), 0);
  EXPECT_EQ(isolated_issue_us(slow_issue), 12);
  EXPECT_EQ(free_running::issue_overhead_us(slow_issue, 0), 0);
  EXPECT_EQ(aligned::issue_overhead_us(slow_issue, 0), 0);
}

TEST(Equations, free_running) {
  EXPECT_EQ(free_running::issue_us(round_numbers, 3), 7);
  EXPECT_EQ(free_running::period_us(round_numbers, 3), 10);
  EXPECT_EQ(free_running::issue_overhead_us(round_numbers, 3), 5);
  EXPECT_EQ(free_running::issue_us(round_numbers, 8), 2);  // exactly the recovery gap
  EXPECT_EQ(free_running::issue_overhead_us(round_numbers, 8), 0);
  EXPECT_EQ(free_running::period_us(round_numbers, 20), 22);
}

TEST(Equations, fixed_work) {
  // By hand: P0 = 2 + 3 = 5 us, V/R = 10 us, x = 0.5: 10 + 5 * 0.5 * 0.5 / 2.
  EXPECT_EQ(free_running::fixed_work_period_us(round_numbers, 3), 10.625);
  EXPECT_EQ(free_running::fixed_work_period_us(round_numbers, 8), 10);  // x = 1: the plain law's corner
  EXPECT_EQ(free_running::fixed_work_period_us(round_numbers, 20), 22);
}

TEST(Equations, aligned) {
  EXPECT_EQ(aligned::issue_us(round_numbers, 3), 7);   // below Q/R = 4 us: as free-running
  EXPECT_EQ(aligned::issue_us(round_numbers, 20), 6);  // beyond: the capacity decides, (1000 - 400) / 100
  EXPECT_EQ(aligned::period_us(round_numbers, 20), 26);
  EXPECT_EQ(aligned::issue_overhead_us(round_numbers, 20), 4);
}

TEST(Equations, one_step_of_the_backlog_recursion) {
  const aligned::BurstOutcome outcome = aligned::next_burst(round_numbers, 1, 300);
  EXPECT_EQ(outcome.backlog_at_start_bytes, 200);  // 300 - 100 * 1
  EXPECT_EQ(outcome.issue_us, 8);                  // (200 + 1000 - 400) / 100
  EXPECT_EQ(outcome.backlog_at_end_bytes, 400);    // 200 + 1000 - 100 * 8: full
}

TEST(Equations, completion_coupled) {
  EXPECT_EQ(completion_coupled::period_us(round_numbers, 3), 13);
  constexpr OperatingPoint slow_issue{1000, 12, 100, 400};  // V/R = 10 us: nothing is visible before it is issued
  EXPECT_EQ(completion_coupled::period_us(slow_issue, 3), 15);
  EXPECT_EQ(completion_coupled::fixed_work_period_us(round_numbers, 3), 13);
  // By hand: P0 = 2 us, x = 0.2: 10 + 2 * 0.2 * 0.8 / 2. Waiting shortens no tail.
  EXPECT_EQ(completion_coupled::fixed_work_period_us(round_numbers, 0), 10.16);
  completion_coupled::Wave wave{
      .linear1_us = 5, .activation_us = 7, .linear2_us = 4, .local_epilogue_us = 1, .issue_us = 2, .post_issue_us = 3};
  EXPECT_EQ(completion_coupled::wave_us(wave), 13);  // max(5, 7) + max(4, 1 + 2 + 3)
  wave.linear1_us = 9;
  wave.linear2_us = 8;
  EXPECT_EQ(completion_coupled::wave_us(wave), 17);  // max(9, 7) + max(8, 6)
}

// ---- trains
// ----------------------------------------------------------------------------------------------------------

/// T_iss0 = 1 us, V/R = 10 us, Q = 2500 bytes.
constexpr OperatingPoint roomy{1000, 1, 100, 2500};

TEST(Train, back_pressure_sets_in_when_the_backlog_has_filled_the_capacity) {
  std::vector<double> issue(8);
  aligned::train_issue_us(roomy, 5, issue);
  // By hand: 400 bytes more are left over every time (1000 - 100 * (1 + 5)); burst 4 starts at 1600 and just fits
  // (1600 + 1000 - 2500 = 100 bytes = 1 us), burst 5 starts at 2000 and waits (3000 - 2500) / 100 = 5 us = V/R - G.
  EXPECT_EQ(issue, (std::vector<double>{1, 1, 1, 1, 1, 5, 5, 5}));
  EXPECT_EQ(onset_of_backpressure(issue, 1, 0.1), 5);
}

TEST(Train, no_onset_with_a_gap_of_at_least_the_recovery_gap) {
  std::vector<double> issue(1000);
  aligned::train_issue_us(roomy, recovery_gap_us(roomy), issue);
  EXPECT_EQ(onset_of_backpressure(issue, roomy.issue_floor_us, 0), -1);
}

TEST(Train, onset_ignores_what_is_within_the_tolerance) {
  constexpr std::array<double, 3> issue{1.0, 1.1, 1.3};
  EXPECT_EQ(onset_of_backpressure(issue, 1, 0.15), 2);
  EXPECT_EQ(onset_of_backpressure(issue, 1, 0.05), 1);
  EXPECT_EQ(onset_of_backpressure(issue, 1, 0.5), -1);
  EXPECT_EQ(onset_of_backpressure({}, 1, 0), -1);
}

TEST(Train, recovers_after_one_long_gap) {
  double backlog = roomy.capacity_bytes;
  backlog = aligned::next_burst(roomy, 5, backlog).backlog_at_end_bytes;
  EXPECT_EQ(backlog, roomy.capacity_bytes);                                           // still full
  EXPECT_EQ(aligned::next_burst(roomy, 25, backlog).issue_us, roomy.issue_floor_us);  // Q/R = 25 us empties it
}

TEST(Train, without_a_capacity_limit_nothing_ever_waits) {
  OperatingPoint limitless = roomy;
  limitless.capacity_bytes = std::numeric_limits<double>::infinity();
  std::vector<double> issue(100);
  aligned::train_issue_us(limitless, 0, issue);
  EXPECT_EQ(onset_of_backpressure(issue, limitless.issue_floor_us, 0), -1);
}

// ---- properties
// ------------------------------------------------------------------------------------------------------

/// Bursts after which the backlog has stopped moving: it moves by |V - R (T_iss0 + G)| a burst, over at most Q.
int bursts_to_steady_state(const OperatingPoint& point, double gap_us) {
  const double drift = std::abs(point.volume_bytes - point.drain_bytes_per_us * (point.issue_floor_us + gap_us));
  return 3 + static_cast<int>(std::min(1e6, std::ceil(point.capacity_bytes / drift)));
}

TEST(Properties, recursion_converges_to_its_closed_form) {
  Random random;
  for (int index = 0; index < random_cases; ++index) {
    const OperatingPoint point = random.point();
    const double gap_us = random.between(0, 100);
    double backlog = 0;
    double issue = 0;
    for (int burst = bursts_to_steady_state(point, gap_us); burst > 0; --burst) {
      const aligned::BurstOutcome outcome = aligned::next_burst(point, gap_us, backlog);
      backlog = outcome.backlog_at_end_bytes;
      issue = outcome.issue_us;
    }
    ASSERT_NEAR(issue, aligned::issue_us(point, gap_us), 1e-6 * drain_time_us(point) + 1e-9) << "case " << index;
  }
}

TEST(Properties, backlog_stays_within_the_capacity) {
  Random random;
  for (int index = 0; index < random_cases; ++index) {
    const OperatingPoint point = random.point();
    double backlog = 0;
    for (int burst = 0; burst < 20; ++burst) {
      const double gap_us = random.between(0, 100);
      backlog = aligned::next_burst(point, gap_us, backlog).backlog_at_end_bytes;
      ASSERT_GE(backlog, 0);
      ASSERT_LE(backlog, point.capacity_bytes + 1e-9 * point.volume_bytes);
    }
  }
}

TEST(Properties, regimes_agree_up_to_a_gap_of_capacity_over_drain_rate) {
  Random random;
  for (int index = 0; index < random_cases; ++index) {
    const OperatingPoint point = random.point();
    const double horizon_us = point.capacity_bytes / point.drain_bytes_per_us;
    const double shorter = horizon_us * random.between(0, 1);
    ASSERT_EQ(aligned::issue_us(point, shorter), free_running::issue_us(point, shorter));
    const double longer = horizon_us * random.between(1, 3);
    ASSERT_GE(aligned::issue_us(point, longer), free_running::issue_us(point, longer));
    // V/R - Q/R against (V - Q)/R: the difference of two rounded quotients.
    ASSERT_NEAR(aligned::issue_us(point, longer), isolated_issue_us(point),
                1e-14 * (drain_time_us(point) + horizon_us));
  }
}

TEST(Properties, drain_bound_periods_do_not_depend_on_the_gap) {
  Random random;
  for (int index = 0; index < random_cases; ++index) {
    const OperatingPoint point = random.point();
    const double gap_us = recovery_gap_us(point) * random.between(0, 1);
    const double drain_bound_us = std::max(drain_time_us(point), point.issue_floor_us);
    ASSERT_DOUBLE_EQ(free_running::period_us(point, gap_us), drain_bound_us);
    ASSERT_DOUBLE_EQ(free_running::issue_us(point, gap_us) + gap_us, drain_bound_us);
  }
}

TEST(Properties, fixed_work_adds_at_most_2_over_27_of_the_drain_time) {
  // x^2 (1 - x) / 2 is largest at x = 2/3: 2/27 = 7.4% of V/R.
  Random random;
  double most = 0;
  for (int index = 0; index < random_cases; ++index) {
    const OperatingPoint point = random.point();
    const double gap_us = recovery_gap_us(point) * random.between(0, 1.5);
    const double added = free_running::fixed_work_period_us(point, gap_us) - free_running::period_us(point, gap_us);
    ASSERT_GE(added, 0);
    ASSERT_LE(added, drain_time_us(point) * (2.0 / 27 + 1e-12));
    most = std::max(most, added / drain_time_us(point));
  }
  EXPECT_GT(most, 0.074);  // the bound is met, so it is not merely safe
}

TEST(Properties, the_knee_returns_the_capacity_that_made_it) {
  Random random;
  for (int index = 0; index < random_cases; ++index) {
    OperatingPoint point = random.point();
    point.volume_bytes = point.capacity_bytes + point.drain_bytes_per_us * point.issue_floor_us;  // the knee
    ASSERT_NEAR(isolated_issue_us(point), point.issue_floor_us, 1e-9 * point.issue_floor_us);
    ASSERT_NEAR(capacity_from_knee_bytes(point.volume_bytes, point.drain_bytes_per_us, point.issue_floor_us),
                point.capacity_bytes, 1e-9 * point.volume_bytes);
    const double floor_us = point.issue_floor_us;
    point.volume_bytes += point.drain_bytes_per_us;  // one microsecond's worth more
    ASSERT_NEAR(isolated_issue_us(point), floor_us + 1, 1e-6);
  }
}

TEST(Properties, design_test_says_what_the_equations_predict) {
  Random random;
  int passed = 0;
  for (int index = 0; index < random_cases; ++index) {
    const OperatingPoint point = random.point();
    const double gap_us = random.between(0, 100);
    const DesignTest test = design_test(point, gap_us);
    ASSERT_EQ(test.rate_holds(), free_running::issue_overhead_us(point, gap_us) == 0);
    ASSERT_EQ(test.rate_holds(), point.volume_bytes / (point.issue_floor_us + gap_us) <= point.drain_bytes_per_us);
    ASSERT_EQ(test.capacity_holds(), isolated_issue_us(point) <= point.issue_floor_us);
    ASSERT_EQ(test.holds(), test.rate_holds() && test.capacity_holds());
    ASSERT_TRUE(!test.holds() || aligned::issue_overhead_us(point, gap_us) == 0);
    passed += test.holds() ? 1 : 0;
  }
  EXPECT_GT(passed, random_cases / 10);  // both answers occur often
  EXPECT_LT(passed, random_cases - random_cases / 10);
}

TEST(DesignTest, margins_by_hand) {
  const DesignTest short_gap = design_test(round_numbers, 3);
  EXPECT_EQ(short_gap.rate_margin_us, -5);           // 3 - (10 - 2)
  EXPECT_EQ(short_gap.capacity_margin_bytes, -400);  // 400 - (1000 - 200)
  constexpr OperatingPoint small{600, 2, 100, 400};
  const DesignTest exact = design_test(small, 4);
  EXPECT_EQ(exact.rate_margin_us, 0);
  EXPECT_EQ(exact.capacity_margin_bytes, 0);
  EXPECT_TRUE(exact.holds());
}

// ---- the paper's per-tile mechanism (spec, skewed W8A8): spans and main loops in microseconds
// ------------------------

struct TileRow {
  const char* shape;
  double wave_span_us;
  double linear2_us;
  double linear1_us;
  double predicted_stall_us;
  double measured_stall_us;
};

constexpr std::array<TileRow, 7> tile_rows{{{"DiT-MoE", 9.93, 5.30, 9.77, 4.63, 4.18},
                                            {"Qwen3.5", 9.17, 4.24, 14.40, 4.94, 4.31},
                                            {"Hy3", 9.68, 6.09, 10.79, 3.60, 3.08},
                                            {"MiMo-V2.5", 9.22, 7.77, 7.57, 1.45, 0.71},
                                            {"GLM-5.2", 9.53, 7.99, 18.77, 1.54, 0.92},
                                            {"DSv4-Flash", 9.48, 8.01, 7.40, 1.47, 0.65},
                                            {"DSv4-Pro", 7.88, 9.54, 11.57, 0, 0.06}}};

/// One window: the next tile's main loop is all the time that a tile's stores have. The measured span is drain-limited,
/// so it stands for V/R, and no floor is taken off since the span includes it.
double one_window_stall_us(double span_us, double gap_us) {
  const OperatingPoint drained_over_the_span{.volume_bytes = span_us, .issue_floor_us = 0, .drain_bytes_per_us = 1};
  return free_running::issue_overhead_us(drained_over_the_span, gap_us);
}

TEST(PaperTiles, one_window_stall_reproduces_the_predicted_column) {
  // 0.015: three numbers rounded to two decimals, by half a unit each.
  for (const TileRow& row : tile_rows) {
    EXPECT_NEAR(one_window_stall_us(row.wave_span_us, row.linear2_us), row.predicted_stall_us, 0.015) << row.shape;
  }
}

TEST(PaperTiles, one_window_stall_overshoots_the_measured_one) {
  for (const TileRow& row : tile_rows) {
    if (row.predicted_stall_us > 0) {
      const double overshoot = one_window_stall_us(row.wave_span_us, row.linear2_us) - row.measured_stall_us;
      EXPECT_GT(overshoot, 0.45 - 0.015) << row.shape;
      EXPECT_LT(overshoot, 0.82 + 0.015) << row.shape;
    }
  }
}

TEST(PaperTiles, one_interleaved_linear1_tile_covers_every_span) {
  for (const TileRow& row : tile_rows) {
    EXPECT_EQ(one_window_stall_us(row.wave_span_us, row.linear2_us + row.linear1_us), 0) << row.shape;
  }
}

// ---- attention
// -------------------------------------------------------------------------------------------------------

double shortest_by_trial(double recovery_us, double key_block, double step_us) {
  double sequence = 1;
  while (std::ceil(sequence / key_block) * step_us < recovery_us) {
    ++sequence;
  }
  return sequence;
}

TEST(Attention, shortest_covered_sequence_equals_a_search) {
  Random random;
  for (int index = 0; index < 2000; ++index) {
    // Eighths are exact in binary, so that gaps which are whole multiples of a step are met exactly.
    const double step_us = random.integer(1, 16) / 8.0;
    const double key_block = random.integer(1, 176);
    const OperatingPoint point{random.integer(0, 160) / 8.0, random.integer(0, 8) / 8.0, 1};
    ASSERT_EQ(shortest_covered_sequence(point, key_block, step_us),
              shortest_by_trial(recovery_gap_us(point), key_block, step_us))
        << "step " << step_us << " block " << key_block << " recovery " << recovery_gap_us(point);
  }
}

}  // namespace
}  // namespace xstage::model::model_test
