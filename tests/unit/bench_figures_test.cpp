// What the rows of one cell say of each other, benchmark by benchmark.

#include <gtest/gtest.h>

#include "ops/attention/bench/rows.hpp"
#include "ops/gemm/bench/rows.hpp"
#include "ops/moe/bench/rows.hpp"
#include "ops/ulysses/bench/rows.hpp"
#include "unit/bench_row_support.hpp"

namespace xstage::bench::bench_figures_test {
namespace {

// ---- GEMM
// ------------------------------------------------------------------------------------------------------------

GemmCell reduce_scatter() {
  return make_cells({gemm::Operation::reduce_scatter}, parse_shapes("2048x4096x4096"), 2).front();
}

TEST(BenchGemmFigures, FusedIsJudgedByTheFasterOfBoth) {
  std::vector<Row> rows = measured_rows({{"cublas", {50, 52, 54, 50, 52, 54, 52}},
                                         {"alone", {48, 50, 52, 48, 50, 52, 50}},
                                         {"fused", {60, 62.5, 65, 60, 62.5, 65, 62.5}}});
  add_figures(reduce_scatter(), rows);
  EXPECT_FALSE(rows[0].figures.contains("ratio"));
  EXPECT_EQ(rows[1].figures.at("ratio_to"), "cublas");
  EXPECT_EQ(rows[2].figures.at("ratio_to"), "alone");
  EXPECT_DOUBLE_EQ(ratio(rows[2], "ratio"), 1.25);
  EXPECT_NEAR(rows[2].figures.at("tflops").get<double>(), 2.0 * 2048 * 4096 * 2048 / 62.5e6, 1e-3);  // of one rank
}

TEST(BenchGemmFigures, WithoutCublasOursIsTheJudge) {
  std::vector<Row> rows = measured_rows({{"alone", steady(50)}, {"fused", steady(55)}});
  add_figures(reduce_scatter(), rows);
  EXPECT_FALSE(rows[0].figures.contains("ratio"));
  EXPECT_DOUBLE_EQ(ratio(rows[1], "ratio"), 1.1);
}

// ---- attention
// -------------------------------------------------------------------------------------------------------

AttentionCell attention_cell(const char* shape = "4096x48") {
  return make_attention_cells(parse_attention_shapes(shape), 2).front();
}

TEST(BenchAttentionFigures, ComparisonsOfACell) {
  std::vector<Row> rows = measured_rows({{"attention", steady(300)},
                                         {"all_to_all", steady(50)},
                                         {"serial", steady(350)},
                                         {"fused", steady(306)},
                                         {"local_twin", steady(303)}});
  add_figures(attention_cell(), rows);
  EXPECT_FALSE(has_any(rows[0], {"ratio", "ceiling"}));
  EXPECT_FALSE(has_any(rows[1], {"ratio", "ceiling", "tflops"}));
  EXPECT_DOUBLE_EQ(ratio(rows[2], "ratio"), 350.0 / 300);
  EXPECT_DOUBLE_EQ(ratio(rows[3], "ratio"), 1.02);
  EXPECT_DOUBLE_EQ(ratio(rows[3], "serial_ratio"), 306.0 / 350);
  EXPECT_DOUBLE_EQ(ratio(rows[3], "twin_ratio"), 306.0 / 303);
  EXPECT_DOUBLE_EQ(ratio(rows[3], "hiding"), 1 - 6.0 / 50);
  EXPECT_DOUBLE_EQ(rows[3].figures.at("ceiling").get<double>(), 350.0 / 300);
  EXPECT_DOUBLE_EQ(rows[3].figures.at("reached").get<double>(), 300.0 / 306);
  EXPECT_DOUBLE_EQ(ratio(rows[4], "ratio"), 1.01);
  EXPECT_FALSE(has_any(rows[4], {"hiding", "ceiling"}));
}

TEST(BenchAttentionFigures, CommunicatingThatTakesLongerIsTheCeiling) {
  std::vector<Row> rows = measured_rows({{"attention", steady(20)}, {"all_to_all", steady(30)}, {"fused", steady(40)}});
  add_figures(attention_cell(), rows);
  EXPECT_DOUBLE_EQ(rows[2].figures.at("ceiling").get<double>(), 50.0 / 30);
  EXPECT_DOUBLE_EQ(rows[2].figures.at("reached").get<double>(), 0.75);
  EXPECT_FALSE(has_any(rows[2], {"hiding", "serial_ratio", "twin_ratio"}));
}

TEST(BenchAttentionFigures, VariantsThatAreNotThereAreNotComparedWith) {
  std::vector<Row> rows = measured_rows({{"fused", steady(306)}});
  add_figures(attention_cell(), rows);
  EXPECT_FALSE(has_any(rows[0], {"ratio", "ratio_to", "ceiling", "hiding"}));
}

TEST(BenchAttentionFigures, AllToAllHasARateOfBytes) {
  std::vector<Row> rows = measured_rows({{"all_to_all", steady(50)}});
  add_figures(attention_cell(), rows);
  // Half of the rows of 24 heads go to the peer.
  EXPECT_EQ(rows[0].figures.at("remote_bytes"), 4096 / 2 * 24 * 128 * 2);
  EXPECT_NEAR(rows[0].figures.at("gb_per_s").get<double>(), 4096.0 / 2 * 24 * 128 * 2 / 50e3, 1e-3);
}

std::optional<PairedRatio> hidden(std::vector<double> attention, std::vector<double> serial,
                                  std::vector<double> fused) {
  const std::vector<Row> rows =
      measured_rows({{"attention", std::move(attention)}, {"serial", std::move(serial)}, {"fused", std::move(fused)}});
  return hiding_ratio(rows[0].times, rows[1].times, rows[2].times);
}

TEST(BenchAttentionFigures, HidingIsPairedByRound) {
  // The GPU is slower in every other round, and all variants with it.
  const auto ratio = hidden({100, 200, 100, 200, 100, 200, 100}, {120, 240, 120, 240, 120, 240, 120},
                            {104, 208, 104, 208, 104, 208, 104});
  ASSERT_TRUE(ratio);
  EXPECT_DOUBLE_EQ(ratio->ratio, 0.8);
  EXPECT_DOUBLE_EQ(ratio->low, 0.8);
  EXPECT_DOUBLE_EQ(ratio->high, 0.8);
}

TEST(BenchAttentionFigures, HidingHasItsLimits) {
  EXPECT_DOUBLE_EQ(hidden(steady(100), steady(120), steady(100))->ratio, 1);
  EXPECT_DOUBLE_EQ(hidden(steady(100), steady(120), steady(120))->ratio, 0);
  EXPECT_DOUBLE_EQ(hidden(steady(100), steady(120), steady(130))->ratio, -0.5);  // worse than no fusing at all
}

TEST(BenchAttentionFigures, NothingToHideHasNoHidingRatio) {
  EXPECT_FALSE(hidden(steady(100), steady(100), steady(100)));
  EXPECT_FALSE(hidden({}, {}, {}));
  // More rounds in which communicating took time than not, but noise says as much.
  EXPECT_FALSE(hidden(steady(100), {101, 99, 101, 99, 101, 99, 101}, steady(100)));
  // Too few rounds for an interval: none may be without.
  EXPECT_FALSE(hidden({100, 100}, {120, 99}, {100, 100}));
  EXPECT_TRUE(hidden({100, 100}, {120, 110}, {100, 100}));
}

TEST(BenchAttentionFigures, RoundWithoutCommunicatingCountsAsNotHidden) {
  // Nine rounds: the interval of the median leaves out one at either end.
  std::vector<double> serial(9, 120);
  serial[4] = 100;  // 0 / 0, unless it is seen
  const auto ratio = hidden(std::vector<double>(9, 100), serial, std::vector<double>(9, 100));
  ASSERT_TRUE(ratio);
  EXPECT_DOUBLE_EQ(ratio->low, 1);
  EXPECT_DOUBLE_EQ(ratio->high, 1);
}

// ---- Ulysses
// ---------------------------------------------------------------------------------------------------------

TEST(BenchUlyssesFigures, ComparisonsArePairedByRound) {
  // The GPU is slower in every other round, and all variants with it.
  std::vector<Row> rows = measured_rows({{"compute", {100, 200, 100, 200, 100, 200, 100}},
                                         {"attention", steady(50)},
                                         {"fused", {120, 240, 120, 240, 120, 240, 120}},
                                         {"flags", {108, 216, 108, 216, 108, 216, 108}}});
  add_figures(UlyssesCell{4096, 24, 2}, rows);
  EXPECT_FALSE(has_any(rows[0], {"ratio", "flags_to_fused"}) || has_any(rows[1], {"ratio", "flags_to_fused"}));
  EXPECT_DOUBLE_EQ(ratio_of(rows[2], "ratio")->low, 1.2);
  EXPECT_FALSE(rows[2].figures.contains("flags_to_fused"));
  EXPECT_DOUBLE_EQ(ratio_of(rows[3], "ratio")->high, 1.08);
  EXPECT_DOUBLE_EQ(ratio_of(rows[3], "flags_to_fused")->high, 0.9);
  const double operations = 2.0 * 2048 * 4 * 3072 * 3072 + 4.0 * 4096 * 4096 * 128 * 12;  // of one rank
  EXPECT_NEAR(rows[3].figures.at("tflops").get<double>(), operations / 108e6, 1e-3);
}

TEST(BenchUlyssesFigures, VariantsThatAreNotThereAreNotComparedWith) {
  std::vector<Row> rows = measured_rows({{"fused", steady(880)}, {"flags", steady(840)}});
  add_figures(UlyssesCell{4096, 24, 2}, rows);
  EXPECT_FALSE(has_any(rows[0], {"ratio"}) || has_any(rows[1], {"ratio"}));
  EXPECT_TRUE(rows[1].figures.contains("flags_to_fused"));
}

// ---- mixture of experts
// ----------------------------------------------------------------------------------------------

MoeCell moe_cell() { return {moe::find_shape("GLM-5"), 8192, moe::Skew::zipf, {1, 2}, 2}; }
constexpr MoeLoad moe_load{65536, 90'000'000, 100'000'000, 400'000'000};

TEST(BenchMoeFigures, LayerIsComparedWithItsParts) {
  // The GPU is slower in every other round, and all variants with it.
  std::vector<Row> rows = measured_rows({{"unfused", {1200, 2400, 1200, 2400, 1200, 2400, 1200}},
                                         {"dispatch", {100, 200, 100, 200, 100, 200, 100}},
                                         {"linear1", {500, 1000, 500, 1000, 500, 1000, 500}},
                                         {"linear2", {300, 600, 300, 600, 300, 600, 300}},
                                         {"combine", {100, 200, 100, 200, 100, 200, 100}},
                                         {"unfused_rows", {2400, 4800, 2400, 4800, 2400, 4800, 2400}},
                                         {"combine_rows", {1100, 2200, 1100, 2200, 1100, 2200, 1100}}});
  add_figures(moe_load, moe_cell(), rows, std::nullopt);
  EXPECT_DOUBLE_EQ(ratio(rows[0], "ratio"), 1.5);
  EXPECT_EQ(rows[0].figures.at("ratio_to"), "linear1+linear2");
  EXPECT_DOUBLE_EQ(ratio_of(rows[0], "ratio")->low, 1.5);
  EXPECT_DOUBLE_EQ(ratio_of(rows[0], "parts_ratio")->high, 1.2);
  EXPECT_DOUBLE_EQ(rows[0].figures.at("ceiling").get<double>(), 1000.0 / 800);
  EXPECT_DOUBLE_EQ(rows[0].figures.at("reached").get<double>(), 800.0 / 1200);
  EXPECT_DOUBLE_EQ(ratio(rows[5], "ratio"), 3);
  EXPECT_DOUBLE_EQ(ratio(rows[5], "parts_ratio"), 1.2);
  EXPECT_DOUBLE_EQ(rows[5].figures.at("reached").get<double>(), 0.5);  // 1200 us of exchanging
  for (const std::size_t part : std::vector<std::size_t>{1, 2, 3, 4, 6}) {
    EXPECT_FALSE(has_any(rows[part], {"ratio", "parts_ratio", "ceiling"})) << part;
  }
}

TEST(BenchMoeFigures, PartsThatAreNotThereAreNotComparedWith) {
  std::vector<Row> rows = measured_rows({{"unfused", steady(1200)}, {"linear1", steady(500)}});
  add_figures(moe_load, moe_cell(), rows, std::nullopt);
  EXPECT_FALSE(has_any(rows[0], {"ratio", "parts_ratio", "ceiling"}));
  rows.push_back(measured_rows({{"linear2", steady(300)}}).front());
  add_figures(moe_load, moe_cell(), rows, std::nullopt);
  EXPECT_DOUBLE_EQ(ratio(rows[0], "ratio"), 1.5);
  EXPECT_FALSE(has_any(rows[0], {"parts_ratio", "ceiling"}));
}

TEST(BenchMoeFigures, ExchangesHaveTheirShareOfTheDrainRate) {
  std::vector<Row> rows = measured_rows({{"unfused", steady(1200)},
                                         {"dispatch", steady(300)},
                                         {"combine", steady(500)},
                                         {"combine_rows", steady(1000)},
                                         {"dispatch_local", steady(100)}});
  add_figures(moe_load, moe_cell(), rows, 400);
  EXPECT_EQ(rows[1].figures.at("remote_bytes"), 90'000'000);
  EXPECT_EQ(rows[1].figures.at("gb_per_s"), 300.0);
  EXPECT_EQ(rows[1].figures.at("rows"), 65536);
  EXPECT_DOUBLE_EQ(rows[1].figures.at("drain_share").get<double>(), 0.75);
  EXPECT_DOUBLE_EQ(rows[2].figures.at("drain_share").get<double>(), 0.5);
  EXPECT_DOUBLE_EQ(rows[3].figures.at("drain_share").get<double>(), 1);
  EXPECT_FALSE(has_any(rows[4], {"drain_share"})) << "its rows do not leave";
  EXPECT_FALSE(has_any(rows[0], {"drain_share", "gb_per_s", "remote_bytes"}));
  EXPECT_FALSE(has_any(rows[1], {"tflops"}));
  EXPECT_NEAR(rows[0].figures.at("tflops").get<double>(), 6.0 * 65536 * 6144 * 2048 / 1200e6, 1e-3);
}

}  // namespace
}  // namespace xstage::bench::bench_figures_test
