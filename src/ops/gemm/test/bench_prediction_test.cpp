#include "ops/gemm/bench/prediction.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <utility>
#include <vector>

#include "ops/gemm/bench/rows.hpp"
#include "unit/audit_platform.hpp"
#include "xstage/error.hpp"

namespace xstage::bench::bench_prediction_test {
namespace {

constexpr int multiprocessors = 132;

PredictionBasis round_basis() {
  Platform platform = round_platform();
  platform.paths[0].path = StorePath::bulk;
  return {platform, multiprocessors};
}

/// A reduce-scatter on two ranks with one trial for each variant.
struct MeasuredCell {
  GemmCell cell;
  std::vector<Row> rows;  // cublas, alone, fused

  std::optional<PredictedSpans> predict() {
    const Plan alone = gemm::make_plan(problem_of_rank(cell), 1, multiprocessors);
    return add_prediction(cell, alone, gemm::make_plan(cell.problem, 2, multiprocessors), rows, round_basis());
  }
  [[nodiscard]] double figure(const char* name) const { return rows.back().figures.at(name).get<double>(); }
};

MeasuredCell measured_cell(const char* shape, double cublas_us, double alone_us, double fused_us) {
  MeasuredCell measured{make_cells({gemm::Operation::reduce_scatter}, parse_shapes(shape), 2).front(), {}};
  const std::vector<std::pair<const char*, double>> times{
      {"cublas", cublas_us}, {"alone", alone_us}, {"fused", fused_us}};
  for (const auto& [variant, microseconds] : times) {
    Row row;
    row.head.variant = variant;
    row.times.trials_us = {microseconds};
    measured.rows.push_back(row);
  }
  return measured;
}

TEST(BenchPrediction, HiddenCommunicationCostsNothing) {
  MeasuredCell measured = measured_cell("8192x8192x8192", 730, 720, 750);
  const std::optional<PredictedSpans> spans = measured.predict();
  ASSERT_TRUE(spans);
  EXPECT_NEAR(measured.figure("predicted_us"), 720, 1e-3);   // as many waves as alone, nothing after the last
  EXPECT_NEAR(spans->main_loop_us, (720.0 - 4) / 16, 1e-6);  // 16 waves, 4 us of launch
  EXPECT_EQ(spans->stall_us, 0);
  EXPECT_TRUE(measured.rows[0].figures.empty() && measured.rows[1].figures.empty());
}

/// 4096 x 8192 bf16 at 400 GB/s: 167.77 us.
TEST(BenchPrediction, CeilingIsOfTheCellsOwnParts) {
  MeasuredCell hidden = measured_cell("8192x8192x8192", 730, 720, 750);
  static_cast<void>(hidden.predict());
  EXPECT_NEAR(hidden.figure("ceiling"), (720 + 167.77216) / 720, 1e-6);
  EXPECT_NEAR(hidden.figure("reached"), 720.0 / 750, 1e-6);
  MeasuredCell draining = measured_cell("8192x8192x1024", 80, 100, 250);
  static_cast<void>(draining.predict());
  EXPECT_NEAR(draining.figure("ceiling"), (80 + 167.77216) / 167.77216, 1e-6);
  EXPECT_NEAR(draining.figure("reached"), 167.77216 / 250, 1e-6);
  EXPECT_GT(draining.figure("predicted_us"), 167.77216);
}

TEST(BenchPrediction, WithoutComputingAloneThereIsNone) {
  MeasuredCell measured = measured_cell("8192x8192x8192", 730, 720, 750);
  measured.rows.erase(measured.rows.begin() + 1);
  EXPECT_FALSE(measured.predict());
  EXPECT_TRUE(measured.rows[1].figures.empty());
  EXPECT_FALSE(measured_cell("8192x8192x8192", 3, 3, 3).predict());  // only a launch
}

TEST(BenchPrediction, UnusablePlatformIsFoundBeforeTheMeasurement) {
  EXPECT_NO_THROW(check_basis(round_basis()));
  PredictionBasis larger = round_basis();
  larger.multiprocessors = 148;
  EXPECT_THROW(check_basis(larger), InputError);
  PredictionBasis no_bulk = round_basis();
  no_bulk.platform.paths.clear();
  EXPECT_THROW(check_basis(no_bulk), InputError);
  PredictionBasis no_drain = round_basis();
  no_drain.platform.paths[0].drain_gb_per_s = unknown("too few samples");
  EXPECT_THROW(check_basis(no_drain), InputError);
}

}  // namespace
}  // namespace xstage::bench::bench_prediction_test
