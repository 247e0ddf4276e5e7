#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ops/moe/bench/rows.hpp"
#include "xstage/error.hpp"

namespace xstage::bench::bench_cells_test {
namespace {

constexpr std::span<const MoeVariant> table(moe_variants);

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

MoeChoice choice_of(const char* shapes, const char* tokens, const char* routings, const char* shares) {
  return {parse_moe_shapes(shapes), parse_moe_tokens(tokens), parse_moe_routings(routings),
          parse_remote_shares(shares)};
}

std::vector<std::string> names_of(const MoeChoice& choice, int ranks) {
  std::vector<std::string> names;
  for (const MoeCell& cell : make_moe_cells(choice, ranks)) {
    names.push_back(cell_name(cell));
  }
  return names;
}

TEST(BenchMoeCells, ListsAreReadEachValueOnce) {
  EXPECT_EQ(parse_moe_shapes("all").size(), 7U);
  const std::vector<moe::Shape> shapes = parse_moe_shapes("glm-5,Qwen3.5,GLM-5");
  ASSERT_EQ(shapes.size(), 2U);
  EXPECT_EQ(shapes[0].name, "GLM-5");
  EXPECT_EQ(shapes[1].name, "Qwen3.5");
  EXPECT_THAT(parse_moe_tokens("8192,decode,64,100"), ElementsAre(8192, 64, 256, 100));
  EXPECT_THAT(parse_moe_tokens("matrix,published"), ElementsAre(1024, 4096, 8192, 512, 2048));
  EXPECT_THAT(parse_moe_routings("skewed,balanced,skewed,one_expert"),
              ElementsAre(moe::Skew::zipf, moe::Skew::balanced, moe::Skew::one_expert));
  const std::vector<moe::Share> shares = parse_remote_shares("7/8,2/4,1/2,natural");
  ASSERT_EQ(shares.size(), 3U);
  EXPECT_EQ(share_text(shares[0]), "7/8");
  EXPECT_EQ(share_text(shares[1]), "1/2");
}

TEST(BenchMoeCells, MistakesAreNamed) {
  EXPECT_THAT([] { static_cast<void>(parse_moe_shapes("GLM-5,GPT")); }, ThrowsMessage<InputError>(HasSubstr("'GPT'")));
  for (const char* text : {"", "0", "-1", "64,", "1000001", "4k", "matrix ", "64 256"}) {
    EXPECT_THAT([&] { static_cast<void>(parse_moe_tokens(text)); }, ThrowsMessage<InputError>(HasSubstr("tokens '")))
        << text;
  }
  for (const char* text : {"", "zipf", "Balanced", "balanced,"}) {
    EXPECT_THAT([&] { static_cast<void>(parse_moe_routings(text)); },
                ThrowsMessage<InputError>(HasSubstr("balanced, skewed, one_expert")))
        << text;
  }
  for (const char* text : {"", "0.5", "1/0", "0/0", "9/8", "-1/2", "1/2/3", "1/", "1/2000000", "half"}) {
    EXPECT_THAT([&] { static_cast<void>(parse_remote_shares(text)); },
                ThrowsMessage<InputError>(HasSubstr("remote share '")))
        << text;
  }
}

TEST(BenchMoeCells, CellsAreAllThatTheListsNameNoneTwice) {
  EXPECT_THAT(names_of(choice_of("GLM-5", "64,128", "balanced,skewed", "natural,7/8"), 2),
              ElementsAre("moe GLM-5, 64 tokens, balanced, remote share 1/2, on 2 ranks",
                          "moe GLM-5, 64 tokens, balanced, remote share 7/8, on 2 ranks",
                          "moe GLM-5, 64 tokens, skewed, remote share 1/2, on 2 ranks",
                          "moe GLM-5, 64 tokens, skewed, remote share 7/8, on 2 ranks",
                          "moe GLM-5, 128 tokens, balanced, remote share 1/2, on 2 ranks",
                          "moe GLM-5, 128 tokens, balanced, remote share 7/8, on 2 ranks",
                          "moe GLM-5, 128 tokens, skewed, remote share 1/2, on 2 ranks",
                          "moe GLM-5, 128 tokens, skewed, remote share 7/8, on 2 ranks"));
  // On two ranks 1/2 is the natural share.
  EXPECT_EQ(names_of(choice_of("GLM-5", "64", "balanced", "natural,1/2"), 2).size(), 1U);
  EXPECT_EQ(names_of(choice_of("GLM-5", "64", "balanced", "natural,1/2"), 8).size(), 2U);
  EXPECT_THAT(names_of(choice_of("GLM-5", "64", "balanced", "natural"), 1),
              ElementsAre("moe GLM-5, 64 tokens, balanced, remote share 0/1, on 1 rank"));
}

TEST(BenchMoeCells, WholeMatrixIsPossibleOnTwoRanks) {
  EXPECT_EQ(make_moe_cells(choice_of("all", "matrix,decode", "balanced,skewed", "1/2,7/8"), 2).size(), 7U * 5 * 2 * 2);
}

TEST(BenchMoeCells, CellsThatBreakARuleAreRefused) {
  EXPECT_THAT([] { static_cast<void>(make_moe_cells(choice_of("GLM-5", "64", "balanced", "1/2"), 1)); },
              ThrowsMessage<InputError>(HasSubstr("remote share 1/2 on 1 rank")));
  EXPECT_THROW(static_cast<void>(make_moe_cells(choice_of("GLM-5", "64", "balanced", "natural"), 9)), InputError);
}

TEST(BenchMoeCells, OnlyAnotherShareThanTheNaturalOneIsForced) {
  MoeCell cell{moe::find_shape("GLM-5"), 64, moe::Skew::zipf, {1, 2}, 2};
  EXPECT_FALSE(routing_request(cell).remote_share);
  EXPECT_EQ(routing_request(cell).skew, moe::Skew::zipf);
  EXPECT_THAT(routing_request(cell).tokens, ElementsAre(64, 64));
  cell.remote_share = {7, 8};
  ASSERT_TRUE(routing_request(cell).remote_share);
  EXPECT_EQ(routing_request(cell).remote_share->part, 7);
  cell.ranks = 8;
  EXPECT_FALSE(routing_request(cell).remote_share);
}

TEST(BenchMoeCells, OneRankHasNoExchanges) {
  EXPECT_EQ(all_variants(std::span<const MoeVariant>(select_variants(table, all_variants(table), 1))),
            "unfused,linear1,linear2");
  EXPECT_THAT([] { static_cast<void>(select_variants(table, "combine", 1)); },
              ThrowsMessage<InputError>(HasSubstr("'combine' on 1 GPU")));
}

TEST(BenchMoeCells, VariantsSayWhatCrosses) {
  const MoeCell cell{moe::find_shape("GLM-5"), 64, moe::Skew::zipf, {1, 2}, 2};
  const std::vector<MoeVariant> all = select_variants(table, all_variants(table), 2);
  const CellHead head = head_of(cell, all, 132);
  ASSERT_EQ(head.rows.size(), 9U);
  for (std::size_t index = 0; index < all.size(); ++index) {
    const bool rows = all[index].name.ends_with("_rows");
    EXPECT_EQ(head.rows[index].plans.at("plan").at("combine"), rows ? "rows" : "partial_sums") << all[index].name;
  }
}

}  // namespace
}  // namespace xstage::bench::bench_cells_test
