#include "bench/gemm_prediction.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "unit/audit_platform.hpp"
#include "xstage/error.hpp"

namespace xstage::bench {
namespace {

constexpr int multiprocessors = 132;

PredictionBasis round_basis() {
  Platform platform = round_platform();
  platform.paths[0].path = StorePath::bulk;
  return {platform, multiprocessors};
}

/// A reduce-scatter on two ranks with one trial for each variant.
std::vector<GemmRow> rows_of_cell(const char* shape, double cublas_us, double alone_us, double fused_us) {
  const GemmCell cell = make_cells({gemm::Operation::reduce_scatter}, parse_shapes(shape), 2).front();
  gemm::Problem computed;
  computed.m = shape_of_rank(cell).m;
  computed.n = shape_of_rank(cell).n;
  computed.k = shape_of_rank(cell).k;
  std::vector<GemmRow> rows(3);
  rows[0].times = {"cublas", 1, 0, {cublas_us}};
  rows[1].times = {"alone", 1, 0, {alone_us}};
  rows[1].plan = gemm::make_plan(computed, 1, multiprocessors);
  rows[2].times = {"fused", 1, 0, {fused_us}};
  rows[2].plan = gemm::make_plan(cell.problem, 2, multiprocessors);
  for (GemmRow& row : rows) {
    row.cell = cell;
  }
  return rows;
}

TEST(BenchPrediction, HiddenCommunicationCostsNothing) {
  std::vector<GemmRow> rows = rows_of_cell("8192x8192x8192", 730, 720, 750);
  add_predictions(rows, round_basis());
  ASSERT_TRUE(rows[2].predicted_us && rows[2].ceiling);
  EXPECT_NEAR(*rows[2].predicted_us, 720, 1e-6);  // as many waves as alone, nothing after the last
  EXPECT_EQ(*rows[2].ceiling, 1);
  ASSERT_TRUE(rows[2].predicted_spans);
  EXPECT_NEAR(rows[2].predicted_spans->main_loop_us, (720.0 - 4) / 16, 1e-6);  // 16 waves, 4 us of launch
  EXPECT_EQ(rows[2].predicted_spans->stall_us, 0);
  EXPECT_FALSE(rows[0].predicted_us || rows[0].ceiling || rows[1].predicted_us || rows[1].ceiling);
  EXPECT_TRUE(row_json(rows[2]).contains("predicted_us"));
  EXPECT_FALSE(row_json(rows[1]).contains("ceiling"));
}

TEST(BenchPrediction, CeilingIsTheDrainWhereItTakesLonger) {
  std::vector<GemmRow> rows = rows_of_cell("8192x8192x1024", 80, 100, 250);
  add_predictions(rows, round_basis());
  ASSERT_TRUE(rows[2].predicted_us && rows[2].ceiling);
  EXPECT_NEAR(*rows[2].ceiling, 167.77216 / 80, 1e-6);  // 4096 x 8192 bf16 at 400 GB/s
  EXPECT_GT(*rows[2].predicted_us, 167.77216);
}

TEST(BenchPrediction, WithoutComputingAloneThereIsNone) {
  std::vector<GemmRow> rows = rows_of_cell("8192x8192x8192", 730, 720, 750);
  rows.erase(rows.begin() + 1);
  add_predictions(rows, round_basis());
  EXPECT_FALSE(rows[1].predicted_us || rows[1].ceiling);
  std::vector<GemmRow> only_launch = rows_of_cell("8192x8192x8192", 3, 3, 3);
  add_predictions(only_launch, round_basis());
  EXPECT_FALSE(only_launch[2].predicted_us || only_launch[2].ceiling);
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
}  // namespace xstage::bench
