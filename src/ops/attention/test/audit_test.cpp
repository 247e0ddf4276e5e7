// The audit of attention with its all-to-all. On the made-up platform R is 400,000 bytes/us and Q(132) 3,000,000 bytes;
// at 792 TFLOP/s one of 132 multiprocessors does 6e6 operations a microsecond, so that a block of 128 keys takes a tile
// of 192 rows and head_dim 128 2.097152 us. 132 such tiles are 6,488,064 bytes, which drain in 16.22016 us.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "ops/attention/bench/prediction.hpp"
#include "ops/attention/problem.hpp"
#include "unit/audit_platform.hpp"
#include "xstage/error.hpp"
#include "xstage/files.hpp"

namespace xstage::attention::audit_test {
namespace {

using testing::HasSubstr;

constexpr int multiprocessors = 132;
constexpr double tensor_tflops = 792;
constexpr double block_us = 2.0 * 2 * 192 * 128 * 128 / 6e6;
constexpr double wave_bytes = 132 * 192 * 256.0;
constexpr double round_drain = 400e3;
constexpr double h200_drain = 373434.2253106944;  // bulk stores of profiles/h200x2.json, bytes a microsecond
constexpr double microsecond_tolerance = 1e-6;

Platform bulk_platform() {
  Platform platform = round_platform();
  platform.paths[0].path = StorePath::bulk;
  platform.paths[0].capacity = {{8, known(3e6), not_measured, not_measured},
                                {132, known(3e6), not_measured, not_measured}};
  return platform;
}

Platform h200() { return read_platform(std::string(XSTAGE_SOURCE_DIR) + "/profiles/h200x2.json"); }

/// `heads` are those of all ranks.
Problem to_owners(std::int64_t rows, std::int64_t keys, int heads) {
  Problem problem;
  problem.rows = rows;
  problem.keys = keys;
  problem.heads = heads;
  problem.kv_heads = heads;
  problem.destination = Destination::to_owners;
  return problem;
}

PlanAudit audit_of(const Problem& problem, int world = 2, const Platform& platform = bulk_platform(),
                   double tflops = tensor_tflops) {
  return audit_plan(problem, make_plan(problem, world, multiprocessors), world, multiprocessors, platform, tflops);
}

double stalls_of(const PlanAudit& audit, double main_loops_us) {
  return audit.predicted_us - audit.launch_us - audit.tail_us - main_loops_us;
}

// ---- two H200, numbers by hand: 12 heads a rank
// ----------------------------------------------------------------------

/// 11 row tiles x 12 heads are one wave. Six of the row tiles have rows of the peer: 72 CTAs store 1024 rows of 12
/// heads when all is computed.
TEST(AttentionAudit, OneWaveHidesNothing) {
  const PlanAudit audit = audit_of(to_owners(2048, 2048, 24), 2, h200(), 660);
  EXPECT_EQ(audit.waves, 1);
  EXPECT_NEAR(audit.main_loop_us, 40.265318, microsecond_tolerance);  // 201,326,592 operations at 5 a picosecond
  EXPECT_DOUBLE_EQ(audit.remote_bytes, 3145728);
  EXPECT_DOUBLE_EQ(audit.all_remote_bytes, 3145728);
  EXPECT_NEAR(audit.tail_us, 3145728 / h200_drain, microsecond_tolerance);  // 8.42
  EXPECT_NEAR(audit.tail_us, audit.all_drain_us, microsecond_tolerance);
  EXPECT_EQ(audit.stall_us, 0);
  EXPECT_NEAR(audit.predicted_us, audit.main_loop_us + audit.tail_us + audit.launch_us, microsecond_tolerance);
}

/// 22 row tiles, two waves. Row tiles 10 to 21 have rows of the peer: 11 heads of them fill the first wave, the second
/// one has the twelfth.
TEST(AttentionAudit, TwoWavesLeaveOneHeadForTheEnd) {
  const PlanAudit audit = audit_of(to_owners(4096, 4096, 24), 2, h200(), 700);
  EXPECT_EQ(audit.waves, 2);
  EXPECT_NEAR(audit.main_loop_us, 402653184.0 * 132 / 700e6, microsecond_tolerance);  // 75.93
  EXPECT_DOUBLE_EQ(audit.remote_bytes, 11 * 2048 * 256);
  EXPECT_NEAR(audit.drain_us, 11 * 2048 * 256 / h200_drain, microsecond_tolerance);  // 15.44
  EXPECT_DOUBLE_EQ(audit.all_remote_bytes, 12 * 2048 * 256);
  EXPECT_NEAR(audit.tail_us, 2048 * 256 / h200_drain, microsecond_tolerance);  // 1.40
  EXPECT_NEAR(audit.predicted_us, 2 * audit.main_loop_us + audit.tail_us + audit.launch_us, microsecond_tolerance);
}

/// 86 row tiles are 1032: seven rounds, and 108 tiles that are split. Row tiles 42 to 85 have rows of the peer, 528 in
/// all: four rounds, of three heads each.
TEST(AttentionAudit, ManyWavesHideEverything) {
  const Problem problem = to_owners(16384, 16384, 24);
  ASSERT_EQ(make_plan(problem, 2, multiprocessors).split, 1);
  const PlanAudit audit = audit_of(problem, 2, h200(), 700);
  EXPECT_EQ(audit.waves, 8);
  EXPECT_NEAR(audit.main_loop_us, 1610612736.0 * 132 / 700e6, microsecond_tolerance);  // 303.7
  EXPECT_DOUBLE_EQ(audit.remote_bytes, 3 * 8192 * 256);
  EXPECT_NEAR(audit.drain_us, 3 * 8192 * 256 / h200_drain, microsecond_tolerance);  // 16.85
  EXPECT_DOUBLE_EQ(audit.all_remote_bytes, 12 * 8192 * 256);
  EXPECT_EQ(audit.stall_us, 0);
  EXPECT_EQ(audit.tail_us, 0);
  // 108 x 128 key blocks are 104.7 for each CTA.
  EXPECT_NEAR(audit.predicted_us, (7 * 128 + 105) / 128.0 * audit.main_loop_us + audit.launch_us,
              microsecond_tolerance);
}

// ---- limits
// ----------------------------------------------------------------------------------------------------------

TEST(AttentionAudit, WithoutPeersOnlyComputingCounts) {
  Problem alone = to_owners(4096, 4096, 12);
  for (const auto& [destination, world] : {std::pair(Destination::local, 1), std::pair(Destination::local, 2),
                                           std::pair(Destination::twin, 2), std::pair(Destination::to_owners, 1)}) {
    alone.destination = destination;
    alone.heads = 12 * world;
    alone.kv_heads = alone.heads;
    const PlanAudit audit = audit_of(alone, world, Platform{});
    EXPECT_EQ(audit.all_remote_bytes, 0);
    EXPECT_EQ(audit.all_drain_us, 0);
    EXPECT_EQ(audit.stall_us, 0);
    EXPECT_EQ(audit.tail_us, 0);
    EXPECT_NEAR(audit.predicted_us, 2 * 32 * block_us + audit.launch_us, microsecond_tolerance);
  }
}

/// 44 row tiles: 12 heads are four waves, the stores of which leave in two. A main loop of one block is much shorter
/// than what its stores take: what the third and fourth do not hide of the rest is the tail.
TEST(AttentionAudit, ShortMainLoopsStallByWhatTheDrainTakesLonger) {
  const Problem problem = to_owners(8448, 128, 24);
  const PlanAudit audit = audit_of(problem);
  ASSERT_EQ(audit.waves, 4);
  EXPECT_DOUBLE_EQ(audit.remote_bytes, wave_bytes);
  EXPECT_NEAR(audit.drain_us, 16.22016, microsecond_tolerance);
  EXPECT_NEAR(audit.stall_us, 16.22016 - block_us, microsecond_tolerance);
  EXPECT_NEAR(audit.aligned_stall_us, audit.stall_us, microsecond_tolerance);
  // The second wave's tiles wait until the first one's stores have been accepted, the third one's for the second's.
  const double first_stall_us = (wave_bytes - 3e6) / round_drain - block_us;
  const double second_stall_us = wave_bytes / round_drain - block_us;
  EXPECT_NEAR(stalls_of(audit, 4 * block_us), first_stall_us + second_stall_us, microsecond_tolerance);
  EXPECT_NEAR(audit.tail_us, 3e6 / round_drain - block_us, microsecond_tolerance);
  // From the end of the first main loop to the end nothing but stores: the drain is busy throughout.
  EXPECT_NEAR(audit.predicted_us, block_us + audit.all_drain_us + audit.launch_us, microsecond_tolerance);
}

TEST(AttentionAudit, UnknownCapacityPromisesLess) {
  const Problem problem = to_owners(8448, 128, 24);
  Platform platform = bulk_platform();
  platform.paths[0].capacity.clear();
  const PlanAudit unknown = audit_of(problem, 2, platform);
  EXPECT_NEAR(stalls_of(unknown, 4 * block_us), 2 * (16.22016 - block_us), microsecond_tolerance);
  EXPECT_EQ(unknown.tail_us, 0);
  EXPECT_NEAR(unknown.stall_us, audit_of(problem).stall_us, microsecond_tolerance);
}

TEST(AttentionAudit, LongSequencesHideAllButOnePercent) {
  for (const int world : {2, 4, 8}) {
    for (const std::int64_t rows : {16384, 32768, 65536}) {
      const Problem fused = to_owners(rows, rows, 12 * world);
      Problem alone = fused;
      alone.destination = Destination::local;
      const double computing_us = audit_of(alone, world).predicted_us;
      const double fused_us = audit_of(fused, world).predicted_us;
      EXPECT_GE(fused_us, computing_us - microsecond_tolerance) << rows << " rows, " << world << " ranks";
      EXPECT_LT(fused_us, 1.01 * computing_us) << rows << " rows, " << world << " ranks";
    }
  }
}

/// With 1025 rows rank 0 owns 513 and sends 512; rank 1 sends 513.
TEST(AttentionAudit, SlowestRankIsTheOneThatIsAudited) {
  const PlanAudit audit = audit_of(to_owners(1025, 1025, 24));
  EXPECT_DOUBLE_EQ(audit.all_remote_bytes, 513 * 12 * 256);
}

/// 12 heads of 11 row tiles.
TEST(AttentionAudit, CausalTilesCountByTheirMean) {
  Problem problem = to_owners(2112, 2112, 24);
  problem.causal = true;
  const PlanAudit audit = audit_of(problem);
  EXPECT_EQ(audit.waves, 1);
  const double blocks = 2 + 3 + 5 + 6 + 8 + 9 + 11 + 12 + 14 + 15 + 17;  // divide_up(192 i, 128)
  EXPECT_NEAR(audit.main_loop_us, blocks / 11 * block_us, microsecond_tolerance);
  // One wave ends when its longest tile does.
  EXPECT_NEAR(audit.predicted_us, 17 * block_us + audit.tail_us + audit.launch_us, microsecond_tolerance);
  EXPECT_NEAR(audit.tail_us, 12 * 1056 * 256 / round_drain, microsecond_tolerance);
}

/// With more tiles than are evaluated, some waves stand for the others.
TEST(AttentionAudit, LongSchedulesAreSampled) {
  Problem problem = to_owners(192 * 64, 512, 2048);
  problem.sequences = 16;
  const PlanAudit audit = audit_of(problem);
  EXPECT_EQ(audit.waves, (64 * 1024 * 16 + 131) / 132);
  const double remote_bytes = 16.0 * 1024 * 192 * 32 * 256;
  EXPECT_NEAR(audit.all_remote_bytes, remote_bytes, 1e-3 * remote_bytes);
  EXPECT_NEAR(audit.all_drain_us, remote_bytes / round_drain, 1e-3 * remote_bytes / round_drain);
}

/// The problem has whole tiles on each rank, none of them split; otherwise one more row may save a tail or some of a
/// wave.
TEST(AttentionAudit, GrowsWithTheRows) {
  Plan plan;
  plan.split = 0;
  PlanAudit before;
  for (std::int64_t rows = 384; rows <= 32 * 384; rows += 384) {
    const PlanAudit audit =
        audit_plan(to_owners(rows, rows, 24), plan, 2, multiprocessors, bulk_platform(), tensor_tflops);
    EXPECT_GT(audit.predicted_us, before.predicted_us) << rows << " rows";
    EXPECT_GT(audit.all_remote_bytes, before.all_remote_bytes) << rows << " rows";
    EXPECT_GE(audit.waves, before.waves) << rows << " rows";
    before = audit;
  }
}

/// 2048 rows of 12 heads are a single wave, of which nothing is hidden.
TEST(AttentionAudit, WhatIsNotHiddenShrinksWithEveryDoubling) {
  for (const int heads : {24, 48}) {
    double before = 1;
    for (std::int64_t rows = 2048; rows <= 65536; rows *= 2) {
      Problem problem = to_owners(rows, rows, heads);
      const double fused_us = audit_of(problem).predicted_us;
      problem.destination = Destination::local;
      const double residual = fused_us / audit_of(problem).predicted_us - 1;
      EXPECT_LE(residual, before + 1e-9) << rows << " rows, " << heads << " heads";
      before = residual;
    }
  }
}

TEST(AttentionAudit, SaysWhatItCannotUse) {
  const auto message = [](const Problem& problem, const Plan& plan, const Platform& platform,
                          double tflops) -> std::string {
    try {
      static_cast<void>(audit_plan(problem, plan, 2, multiprocessors, platform, tflops));
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  };
  const Problem problem = to_owners(4096, 4096, 24);
  EXPECT_THAT(message(problem, {}, bulk_platform(), 0), HasSubstr("tensor_tflops is 0"));
  EXPECT_THAT(message(problem, {}, bulk_platform(), std::numeric_limits<double>::infinity()),
              HasSubstr("tensor_tflops is inf"));
  EXPECT_THAT(message(to_owners(4096, 4096, 25), {}, bulk_platform(), tensor_tflops), HasSubstr("heads is 25"));
  EXPECT_THAT(message(problem, {.issuers = 133}, bulk_platform(), tensor_tflops), HasSubstr("issuers is 133"));
  EXPECT_THAT(message(problem, {}, round_platform(), tensor_tflops), HasSubstr("store path bulk"));
  Platform no_drain = bulk_platform();
  no_drain.paths[0].drain_gb_per_s = unknown("too few samples");
  EXPECT_THAT(message(problem, {}, no_drain, tensor_tflops), HasSubstr("too few samples"));
}

}  // namespace
}  // namespace xstage::attention::audit_test

namespace xstage::bench::audit_test {
namespace {

struct MeasuredCell {
  AttentionCell cell;
  attention::Plan alone;
  attention::Plan fused;
  std::vector<Row> rows;

  std::optional<AttentionPrediction> predict() {
    return add_prediction(cell, alone, fused, rows,
                          {attention::audit_test::bulk_platform(), attention::audit_test::multiprocessors});
  }
};

MeasuredCell measured_cell(const char* shape, double attention_us, double fused_us) {
  MeasuredCell measured;
  measured.cell = make_attention_cells(parse_attention_shapes(shape), 2).front();
  measured.alone = attention::make_plan(problem_of_rank(measured.cell), 1, attention::audit_test::multiprocessors);
  measured.fused = attention::make_plan(measured.cell.problem, 2, attention::audit_test::multiprocessors);
  measured.rows.resize(2);
  measured.rows[0].head.variant = "attention";
  measured.rows[0].times.trials_us = {attention_us};
  measured.rows[1].head.variant = "fused";
  measured.rows[1].times.trials_us = {fused_us};
  return measured;
}

TEST(BenchAttentionPrediction, AddsCommunicatingToMeasuredComputing) {
  MeasuredCell measured = measured_cell("2048x24", 40, 50);
  const std::optional<AttentionPrediction> prediction = measured.predict();
  ASSERT_TRUE(prediction);
  constexpr double drain_us = 3145728 / attention::audit_test::round_drain;
  EXPECT_NEAR(prediction->call_us, 40 + drain_us, 1e-6);
  EXPECT_NEAR(prediction->coupled_us, 40 + drain_us, 1e-6);  // one wave: no CTA begins another tile
  EXPECT_NEAR(prediction->tail_us, drain_us, 1e-6);
  EXPECT_NEAR(prediction->main_loop_us, 36, 1e-6);  // 4 us of launch
  // 16 blocks in 36 us: the fourth ends after 7.86.
  ASSERT_TRUE(prediction->shortest_hidden_keys);
  EXPECT_EQ(*prediction->shortest_hidden_keys, 3 * 128 + 1);
  const Json json = row_json(measured.rows[1]);
  EXPECT_NEAR(json.at("predicted_us").get<double>(), 40 + drain_us, 1e-3);
  EXPECT_EQ(json.at("prediction").at("stall_us"), 0);
  EXPECT_FALSE(row_json(measured.rows[0]).contains("predicted_us"));
}

TEST(BenchAttentionPrediction, WavesThatAreNotWaitedForAreHidden) {
  const std::optional<AttentionPrediction> prediction = measured_cell("4096x48", 300, 310).predict();
  ASSERT_TRUE(prediction);
  EXPECT_NEAR(prediction->call_us, 300, 1e-6);
  EXPECT_NEAR(prediction->coupled_us, 300 + 24 * 2048 * 256 / attention::audit_test::round_drain, 1e-6);
}

TEST(BenchAttentionPrediction, CausalHasNoShortestLength) {
  MeasuredCell measured = measured_cell("4096x48:causal", 200, 210);
  const std::optional<AttentionPrediction> prediction = measured.predict();
  ASSERT_TRUE(prediction);
  EXPECT_FALSE(prediction->shortest_hidden_keys);
  EXPECT_FALSE(measured.rows[1].figures.at("prediction").contains("shortest_hidden_keys"));
}

TEST(BenchAttentionPrediction, WithoutComputingAloneThereIsNone) {
  MeasuredCell measured = measured_cell("2048x24", 40, 50);
  measured.rows.erase(measured.rows.begin());
  EXPECT_FALSE(measured.predict());
  EXPECT_TRUE(measured.rows[0].figures.empty());
  EXPECT_FALSE(measured_cell("2048x24", 3, 3).predict());  // only a launch
}

}  // namespace
}  // namespace xstage::bench::audit_test
