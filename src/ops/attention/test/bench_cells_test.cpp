#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "ops/attention/bench/rows.hpp"
#include "xstage/error.hpp"

namespace xstage::bench::bench_cells_test {
namespace {

using attention::Destination;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

using Kind = AttentionShapeChoice::Kind;

std::set<std::string> names_of(const char* shapes, int ranks) {
  std::set<std::string> names;
  for (const AttentionCell& cell : make_attention_cells(parse_attention_shapes(shapes), ranks)) {
    EXPECT_TRUE(names.insert(shape_text(cell)).second) << shape_text(cell);
    EXPECT_EQ(cell.ranks, ranks);
  }
  return names;
}

AttentionCell cell_of(const char* shape, int ranks) {
  return make_attention_cells(parse_attention_shapes(shape), ranks).front();
}

TEST(BenchAttentionCells, ShapesAreReadAsTheyArePrinted) {
  EXPECT_THAT(parse_attention_shapes("4096x24,1000x8:d64:causal:kv2").listed,
              ElementsAre(AttentionShape{4096, 24, 0, 128, false}, AttentionShape{1000, 8, 2, 64, true}));
  EXPECT_EQ(parse_attention_shapes("8x4:kv2:causal").listed, parse_attention_shapes("8x4:causal:kv2").listed);
  for (const char* shape : {"4096x24", "1000x8:d64", "8x8:causal", "8x8:kv4", "1000x8:d64:causal:kv2"}) {
    EXPECT_EQ(shape_text(cell_of(shape, 2)), shape);
  }
  EXPECT_EQ(shape_text(cell_of("8x4:d128:kv4", 2)), "8x4");
  EXPECT_EQ(parse_attention_shapes("table").kind, Kind::table);
  EXPECT_EQ(parse_attention_shapes("full").kind, Kind::full);
  EXPECT_EQ(parse_attention_shapes("extra").kind, Kind::extra);
}

TEST(BenchAttentionCells, MistakesAreNamed) {
  for (const char* text : {"", "4096", "4096x", "x24", "4096x24x2", "0x24", "4096x-24", "4096x24,",
                           "4096x24:", "4096x24:d", "4096x24:d0", "4096x24:kv", "4096x24:kv0", "4096x24:kv2:kv2",
                           "4096x24:sparse", "4096x24:causal:causal", " 4096x24", "4096x99999999999"}) {
    EXPECT_THAT([&] { static_cast<void>(parse_attention_shapes(text)); },
                ThrowsMessage<InputError>(HasSubstr("SEQUENCExHEADS")))
        << text;
  }
  EXPECT_THAT([] { static_cast<void>(parse_attention_shapes("1x2,tables")); },
              ThrowsMessage<InputError>(HasSubstr("'tables'")));
}

TEST(BenchAttentionCells, TableIsTheFullRowsAndTheExtraOnes) {
  const std::set<std::string> full = names_of("full", 2);
  const std::set<std::string> extra = names_of("extra", 2);
  EXPECT_EQ(full.size(), 14U);
  EXPECT_EQ(extra.size(), 18U);
  std::set<std::string> both = full;
  both.insert(extra.begin(), extra.end());
  EXPECT_EQ(both, names_of("table", 2));
  // 12 and 24 heads a rank are 24 and 48 of two.
  for (const char* shape : {"1024x24", "65536x24", "1024x48", "65536x48"}) {
    EXPECT_TRUE(full.contains(shape)) << shape;
  }
  for (const char* shape : {"4096x24:d64", "8192x48:causal", "16384x24:kv6", "16384x48:kv12"}) {
    EXPECT_TRUE(extra.contains(shape)) << shape;
  }
}

TEST(BenchAttentionCells, EveryWorldHasATable) {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    EXPECT_EQ(names_of("table", ranks).size(), 32U) << ranks;
  }
}

TEST(BenchAttentionCells, ShapesThatBreakARuleAreRefused) {
  EXPECT_THROW(static_cast<void>(make_attention_cells(parse_attention_shapes("64x9"), 2)), InputError);
  EXPECT_THROW(static_cast<void>(make_attention_cells(parse_attention_shapes("64x8:kv3"), 1)), InputError);
  EXPECT_THROW(static_cast<void>(make_attention_cells(parse_attention_shapes("64x8:d96"), 1)), InputError);
  EXPECT_EQ(make_attention_cells(parse_attention_shapes("64x8,64x8:kv8,64x8:d64"), 2).size(), 2U);
}

TEST(BenchAttentionCells, ShareOfARank) {
  const AttentionCell cell = cell_of("1000x8:kv4", 4);
  EXPECT_EQ(cell.problem.destination, Destination::to_owners);
  const attention::Problem share = problem_of_rank(cell);
  EXPECT_EQ(share.heads, 2);
  EXPECT_EQ(share.kv_heads, 1);
  EXPECT_EQ(share.rows, 1000);
  EXPECT_EQ(share.keys, 1000);
  EXPECT_EQ(share.destination, Destination::local);
  EXPECT_DOUBLE_EQ(operations_of_rank(cell), 4.0 * 1000 * 1000 * 128 * 2);
  EXPECT_DOUBLE_EQ(operations_of_rank(cell_of("1000x8:causal", 4)), 2.0 * 1000 * 1000 * 128 * 2);
  const all_to_all::Problem exchange = exchange_of(cell);
  EXPECT_EQ(exchange.rows, 1000);
  EXPECT_EQ(exchange.heads, 8);
  EXPECT_EQ(exchange.head_dim, 128);
  EXPECT_EQ(cell_of("1000x8", 1).problem.destination, Destination::local);
}

TEST(BenchAttentionCells, VariantsComeInTheOrderInWhichTheyAreMeasured) {
  constexpr std::span<const AttentionVariant> table(attention_variants);
  const auto selected = [&](std::string_view text, int ranks) {
    return all_variants(std::span<const AttentionVariant>(select_variants(table, text, ranks)));
  };
  EXPECT_EQ(all_variants(table), "attention,all_to_all,serial,fused,fused_sent,local_twin");
  EXPECT_EQ(default_variants(table), "attention,all_to_all,serial,fused,local_twin");
  EXPECT_EQ(selected("fused,attention,fused", 2), "attention,fused");
  EXPECT_EQ(selected(all_variants(table), 1), "attention");
  EXPECT_THAT([&] { static_cast<void>(selected("fused", 1)); },
              ThrowsMessage<InputError>(HasSubstr("variants 'fused' on 1 GPU: it has attention only")));
  EXPECT_THAT([&] { static_cast<void>(selected("attention,fast", 2)); },
              ThrowsMessage<InputError>(HasSubstr("'fast'")));
  EXPECT_THROW(static_cast<void>(selected("", 2)), InputError);
}

/// What an all-to-all leaves counts only when it has arrived.
TEST(BenchAttentionCells, FusedCallsEndWhenPeersResultsHaveArrived) {
  for (const AttentionVariant& variant : attention_variants) {
    EXPECT_EQ(variant.completion == Completion::sent, variant.name == "fused_sent") << variant.name;
  }
}

TEST(BenchAttentionCells, SomeVariantsAreNotRecorded) {
  constexpr std::span<const AttentionVariant> table(attention_variants);
  const auto why = [&](const char* text, bool trace) { return why_no_spans(select_variants(table, text, 2), trace); };
  EXPECT_EQ(why("attention,local_twin", false), "");
  EXPECT_EQ(why("attention,fused", true), "");
  EXPECT_THAT(why("attention,fused_sent", false), HasSubstr("none of the variants attention,fused_sent is recorded"));
  EXPECT_THAT(why("local_twin", true), HasSubstr("a trace is of the variant fused"));
}

}  // namespace
}  // namespace xstage::bench::bench_cells_test
