#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "bench/row_fields.hpp"
#include "ops/moe/bench/load.hpp"
#include "ops/moe/bench/rows.hpp"

namespace xstage::bench::bench_load_test {
namespace {

/// Two ranks with two experts each, of which tokens choose two.
MoeCell small_cell() { return {{"small", 64, 128, 2, 2}, 3, moe::Skew::balanced, {1, 2}, 2}; }

MoeVariant variant_of(const char* name) {
  return select_variants(std::span<const MoeVariant>(moe_variants), name, 2).front();
}

moe::Routing small_routing() {
  moe::Routing routing{2, 2, 2, {}};
  routing.ranks.push_back({3, {2, 3, 0, 2, 3, 0}, {0.1F, 0.9F, 0.2F, 0.8F, 0.3F, 0.7F}});
  routing.ranks.push_back({3, {0, 1, 3, 2, 2, 3}, {0.4F, 0.6F, 0.5F, 0.5F, 0.25F, 0.75F}});
  return routing;
}

TEST(BenchMoeLoad, CountsTheRankThatHasMost) {
  const MoeLoad load = load_of(small_cell(), small_routing());
  EXPECT_EQ(load.rows, 8);                     // on rank 1
  EXPECT_EQ(load.dispatch_bytes, 3 * 64 * 2);  // rank 0: each of its tokens once, though one of them is needed twice
  EXPECT_EQ(load.combine_bytes, 3 * 64 * 2);   // rank 1: each token of rank 0
  EXPECT_EQ(load.combine_rows_bytes, 4 * 64 * 2);  // rank 1: each choice of rank 0's tokens
  EXPECT_EQ(remote_bytes(variant_of("dispatch"), load), load.dispatch_bytes);
  EXPECT_EQ(remote_bytes(variant_of("combine"), load), load.combine_bytes);
  EXPECT_EQ(remote_bytes(variant_of("combine_rows"), load), load.combine_rows_bytes);
  EXPECT_EQ(remote_bytes(variant_of("dispatch_local"), load), load.dispatch_bytes);
  EXPECT_EQ(remote_bytes(variant_of("combine_local"), load), load.combine_bytes);
  EXPECT_EQ(remote_bytes(variant_of("unfused"), load), 0);
}

TEST(BenchMoeLoad, VariantsCountWhatTheyCompute) {
  const MoeCell cell = small_cell();
  const MoeLoad load{10, 0, 0, 0};
  const auto operations = [&](const char* name) { return operations_of_rank(cell, variant_of(name), load); };
  EXPECT_DOUBLE_EQ(operations("linear1"), 2.0 * 10 * 64 * 256);
  EXPECT_DOUBLE_EQ(operations("linear2"), 2.0 * 10 * 128 * 64);
  EXPECT_DOUBLE_EQ(operations("unfused"), 6.0 * 10 * 64 * 128);
  EXPECT_DOUBLE_EQ(operations("unfused_rows"), 6.0 * 10 * 64 * 128);
  for (const char* exchange : {"dispatch", "combine", "combine_rows"}) {
    EXPECT_EQ(operations(exchange), 0) << exchange;
  }
}

template <typename Value>
std::vector<Value> values_at(const std::string& text, std::size_t at, std::size_t count) {
  std::vector<Value> values(count);
  std::memcpy(values.data(), text.data() + at, count * sizeof(Value));
  return values;
}

TEST(BenchMoeLoad, FileHasTheRoutingsThatAreMeasured) {
  MoeCell skewed{moe::find_shape("GLM-5"), 20, moe::Skew::zipf, {7, 8}, 2};
  const std::vector<MoeCell> cells{{moe::find_shape("Qwen3.5"), 30, moe::Skew::balanced, {1, 2}, 2}, skewed};
  const std::string file = routings_file(cells);
  const std::size_t body = file.find('\n') + 1;
  const Json header = Json::parse(file.substr(0, body));
  EXPECT_EQ(header.at("schema"), "xstage.routings/1");
  EXPECT_EQ(header.at("ranks"), 2);
  ASSERT_EQ(header.at("cells").size(), 2U);
  const Json& second = header.at("cells")[1];
  EXPECT_EQ(second.at("shape"), "GLM-5");
  EXPECT_EQ(second.at("hidden"), 6144);
  EXPECT_EQ(second.at("intermediate"), 2048);
  EXPECT_EQ(second.at("experts_per_rank"), 32);
  EXPECT_EQ(second.at("top_k"), 8);
  EXPECT_EQ(second.at("tokens"), 20);
  EXPECT_EQ(second.at("routing"), "skewed");
  EXPECT_EQ(second.at("remote_share"), "7/8");
  EXPECT_EQ(header.at("cells")[0].at("offset"), 0);
  const auto offset = second.at("offset").get<std::size_t>();
  EXPECT_EQ(offset, 2U * 30 * 10 * 8);
  const moe::Routing routing = moe::make_routing(routing_request(skewed));
  const std::size_t choices = 20 * 8;
  const std::size_t rank1 = body + offset + choices * 8;
  EXPECT_EQ(values_at<std::int32_t>(file, body + offset, choices), routing.ranks[0].experts);
  EXPECT_EQ(values_at<float>(file, body + offset + choices * 4, choices), routing.ranks[0].weights);
  EXPECT_EQ(values_at<std::int32_t>(file, rank1, choices), routing.ranks[1].experts);
  EXPECT_EQ(file.size(), rank1 + choices * 8);
}

}  // namespace
}  // namespace xstage::bench::bench_load_test
