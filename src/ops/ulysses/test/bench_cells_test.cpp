#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ops/ulysses/bench/rows.hpp"
#include "xstage/error.hpp"

namespace xstage::bench::bench_cells_test {
namespace {

constexpr std::span<const UlyssesVariant> table(ulysses_variants);

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::vector<std::string> names_of(const char* shapes, int ranks) {
  std::vector<std::string> names;
  for (const UlyssesCell& cell : make_ulysses_cells(parse_ulysses_shapes(shapes), ranks)) {
    EXPECT_EQ(cell.ranks, ranks);
    names.push_back(shape_text(cell));
  }
  return names;
}

TEST(BenchUlyssesCells, ShapesAreReadAsTheyArePrinted) {
  EXPECT_THAT(parse_ulysses_shapes("4096x24,1000x8").shapes,
              ElementsAre(UlyssesShape{4096, 24}, UlyssesShape{1000, 8}));
  EXPECT_THAT(names_of("4096x24,1000x8,4096x24", 2), ElementsAre("4096x24", "1000x8"));
  EXPECT_EQ(cell_name(UlyssesCell{4096, 24, 2}), "ulysses 4096x24 on 2 ranks");
  EXPECT_EQ(cell_name(UlyssesCell{4096, 24, 1}), "ulysses 4096x24 on 1 rank");
}

TEST(BenchUlyssesCells, MistakesAreNamed) {
  for (const char* text : {"", "4096", "4096x", "x24", "4096x24x2", "0x24", "4096x-24", "4096x24,", "4096x24:causal",
                           " 4096x24", "4096x99999999999", "tables", "1x2,table"}) {
    EXPECT_THAT([&] { static_cast<void>(parse_ulysses_shapes(text)); },
                ThrowsMessage<InputError>(HasSubstr("TOKENSxHEADS")))
        << text;
  }
}

TEST(BenchUlyssesCells, TableHasWhatTheRanksCanShare) {
  const std::vector<std::string> all{"4096x24", "16384x24", "65536x24", "4096x40", "16384x40", "65536x40"};
  for (const int ranks : {1, 2, 4, 8}) {
    EXPECT_EQ(names_of("table", ranks), all) << ranks;
  }
  EXPECT_THAT(names_of("table", 3), ElementsAre("4096x24", "16384x24", "65536x24"));
  EXPECT_THAT(names_of("table", 5), ElementsAre("4096x40", "16384x40", "65536x40"));
  EXPECT_THAT([] { static_cast<void>(make_ulysses_cells(parse_ulysses_shapes("table"), 7)); },
              ThrowsMessage<InputError>(HasSubstr("7 ranks")));
}

TEST(BenchUlyssesCells, ShapesThatBreakARuleAreRefused) {
  EXPECT_THROW(static_cast<void>(make_ulysses_cells(parse_ulysses_shapes("64x9"), 2)), InputError);
  EXPECT_THROW(static_cast<void>(make_ulysses_cells(parse_ulysses_shapes("64x16777216"), 1)), InputError);
  // Three ranks own two tokens each: the fourth has none.
  EXPECT_THAT([] { static_cast<void>(make_ulysses_cells(parse_ulysses_shapes("6x8"), 4)); },
              ThrowsMessage<InputError>(HasSubstr("6 tokens on 4 ranks")));
  EXPECT_THAT(names_of("7x8", 4), ElementsAre("7x8"));
}

TEST(BenchUlyssesCells, OneRankHasNothingAmongRanks) {
  EXPECT_EQ(all_variants(std::span<const UlyssesVariant>(select_variants(table, all_variants(table), 1))),
            "compute,qkv_projection,attention,output_projection");
}

TEST(BenchUlyssesCells, OperationsOfALayer) {
  const UlyssesCell cell{1000, 24, 3};
  EXPECT_EQ(hidden_of(cell), 3072);
  EXPECT_EQ(own_tokens(cell, 0), 334);
  EXPECT_EQ(own_tokens(cell, 2), 332);
  const gemm::Problem projection = projection_of(cell).problem;
  EXPECT_EQ(projection.operation, gemm::Operation::all_to_all);
  EXPECT_EQ(projection.m, 1000);
  EXPECT_EQ(projection.n, 3 * 3072);
  EXPECT_EQ(projection.k, 3072);
  ASSERT_EQ(projection.parts.size(), 3U);
  EXPECT_EQ(projection.parts[2].heads, 24);
  EXPECT_FALSE(projection.parts[0].norm || projection.parts[0].rotary);
  EXPECT_NO_THROW(gemm::check_problem(projection, 3));
  const gemm::Problem local = local_projection_of(cell, 2);
  EXPECT_EQ(local.operation, gemm::Operation::gemm);
  EXPECT_EQ(local.m, 332);
  EXPECT_EQ(local.n, 3 * 3072);
  EXPECT_TRUE(local.parts.empty());
  const gemm::Problem output = output_projection_of(cell, 0);
  EXPECT_EQ(output.m, 334);
  EXPECT_EQ(output.n, 3072);
  EXPECT_EQ(output.k, 3072);
  EXPECT_EQ(attention_of(cell).problem.destination, attention::Destination::to_owners);
  EXPECT_EQ(attention_of({1000, 24, 1}).problem.destination, attention::Destination::local);
  EXPECT_EQ(problem_of_rank(attention_of(cell)).heads, 8);
  EXPECT_EQ(problem_of_rank(attention_of(cell)).keys, 1000);
}

TEST(BenchUlyssesCells, VariantsCountWhatTheyCompute) {
  const UlyssesCell cell{1000, 24, 3};
  const double projection = 2.0 * 334 * 9216 * 3072;
  const double attention = 4.0 * 1000 * 1000 * 128 * 8;
  const double output = 2.0 * 334 * 3072 * 3072;
  for (const UlyssesVariant& variant : ulysses_variants) {
    const double expected = (variant.projection ? projection : 0) + (variant.attention ? attention : 0) +
                            (variant.output_projection ? output : 0);
    EXPECT_DOUBLE_EQ(operations_of_rank(cell, variant), expected) << variant.name;
  }
  EXPECT_DOUBLE_EQ(operations_of_rank(cell, select_variants(table, "qkv_projection", 3)[0]), projection);
  EXPECT_DOUBLE_EQ(operations_of_rank(cell, select_variants(table, "flags", 3)[0]), projection + attention + output);
}

}  // namespace
}  // namespace xstage::bench::bench_cells_test
