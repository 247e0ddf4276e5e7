#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <tuple>

#include "bench/normal_pattern.hpp"
#include "bench/random_bits.hpp"
#include "bench/sampling.hpp"
#include "ops/attention/bench/reference.hpp"

namespace xstage::bench::bench_reference_test {
namespace {

using ::testing::ElementsAre;

AttentionCell cell_of(const char* shape, int ranks) {
  return make_attention_cells(parse_attention_shapes(shape), ranks).front();
}

std::vector<float> random_values(std::size_t count, std::uint64_t seed) {
  std::vector<float> values;
  for (const std::uint16_t bits : normal_pattern(count, 1.0, seed)) {
    values.push_back(from_bf16(bits));
  }
  return values;
}

TEST(BenchAttentionReference, OneKeyIsItsValue) {
  const std::vector<float> values{3, -4};
  const ReferenceRow row = attend(std::vector<float>{1, 2}, std::vector<float>{5, 6}, values);
  EXPECT_THAT(row.expected, ElementsAre(3, -4));
  EXPECT_THAT(row.spread, ElementsAre(3, 4));
}

TEST(BenchAttentionReference, WeightsAreExponentialsOfScaledScores) {
  // Scores 4 * ln(3) / sqrt(4) apart: weights 9 / 10 and 1 / 10, whatever is added to both.
  const auto step = static_cast<float>(std::log(3.0));
  for (const float offset : {0.0F, 300.0F, -300.0F}) {
    const std::vector<float> keys{offset, 4 * step, 0, 0, offset, 0, 0, 0};
    const ReferenceRow row =
        attend(std::vector<float>{1, 1, 0, 0}, keys, std::vector<float>{10, 0, 1, 2, 20, 10, 1, -2});
    EXPECT_NEAR(row.expected[0], 11, 1e-5);
    EXPECT_NEAR(row.expected[1], 1, 1e-6);
    EXPECT_NEAR(row.expected[2], 1, 1e-6);
    EXPECT_NEAR(row.expected[3], 1.6, 1e-6);
    EXPECT_NEAR(row.spread[0], std::hypot(9, 2), 1e-5);
  }
}

TEST(BenchAttentionReference, BadSizesAreRefused) {
  const std::vector<float> two{1, 2};
  EXPECT_THROW(static_cast<void>(attend(two, {}, {})), std::logic_error);
  EXPECT_THROW(static_cast<void>(attend(two, std::vector<float>{1, 2, 3}, std::vector<float>{1, 2, 3})),
               std::logic_error);
  EXPECT_THROW(static_cast<void>(attend(two, two, std::vector<float>{1, 2, 3, 4})), std::logic_error);
}

/// The best that a kernel does: it multiplies probabilities rounded to bf16 and sums those that are not rounded.
std::vector<float> rounded_attention(const std::vector<float>& query, const std::vector<float>& keys,
                                     const std::vector<float>& values, float values_factor) {
  const std::size_t head_dim = query.size();
  const std::size_t count = keys.size() / head_dim;
  std::vector<double> scores(count);
  for (std::size_t key = 0; key < count; ++key) {
    for (std::size_t column = 0; column < head_dim; ++column) {
      scores[key] += static_cast<double>(query[column] * keys[key * head_dim + column]);
    }
    scores[key] /= std::sqrt(static_cast<double>(head_dim));
  }
  const double largest = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  std::vector<double> result(head_dim);
  for (std::size_t key = 0; key < count; ++key) {
    const auto weight = static_cast<float>(std::exp(scores[key] - largest));
    sum += static_cast<double>(weight);
    for (std::size_t column = 0; column < head_dim; ++column) {
      result[column] += static_cast<double>(from_bf16(to_bf16(weight)) * values[key * head_dim + column]);
    }
  }
  std::vector<float> rounded;
  for (const double value : result) {
    rounded.push_back(from_bf16(to_bf16(static_cast<float>(value / sum) * values_factor)));
  }
  return rounded;
}

TEST(BenchAttentionReference, RoundingIsAllowedAndMistakesAreNot) {
  const std::size_t head_dim = 128;
  for (const std::size_t count : {1U, 2U, 5U, 16U, 64U, 300U, 4000U}) {
    const std::vector<float> query = random_values(head_dim, 10 + count);
    std::vector<float> keys = random_values(count * head_dim, 20 + count);
    std::vector<float> values = random_values(count * head_dim, 30 + count);
    const ReferenceRow reference = attend(query, keys, values);
    EXPECT_LE(largest_error(rounded_attention(query, keys, values, 1), reference), most_roundings) << count;
    // A twentieth too much, or the last of few keys forgotten, or one column of NaN.
    EXPECT_GT(largest_error(rounded_attention(query, keys, values, 1.05F), reference), most_roundings) << count;
    std::vector<float> result = rounded_attention(query, keys, values, 1);
    result[17] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_GT(largest_error(result, reference), most_roundings) << count;
    if (count > 1) {
      keys.resize((count - 1) * head_dim);
      values.resize((count - 1) * head_dim);
      EXPECT_GT(largest_error(rounded_attention(query, keys, values, 1), reference), most_roundings) << count;
    }
  }
}

TEST(BenchAttentionReference, EveryRowOfEveryHeadHasOnePlace) {
  // 101 rows of 6 heads on 3 ranks: they own 34, 34 and 33.
  const AttentionCell cell = cell_of("101x6", 3);
  std::set<std::tuple<int, std::int64_t, int>> places;
  for (int rank = 0; rank < 3; ++rank) {
    for (std::int64_t row = 0; row < 101; ++row) {
      for (int head = 0; head < 2; ++head) {
        const ResultPlace place = owner_of(cell, rank, row, head);
        EXPECT_LT(place.row, own_rows(cell, place.rank));
        EXPECT_TRUE(places.insert({place.rank, place.row, place.head}).second);
      }
    }
  }
  EXPECT_EQ(places.size(), 101U * 6U);
  EXPECT_EQ(own_rows(cell, 0), 34);
  EXPECT_EQ(own_rows(cell, 2), 33);
  EXPECT_EQ(owner_of(cell, 1, 67, 1), (ResultPlace{1, 33, 3}));
  EXPECT_EQ(owner_of(cell, 2, 68, 0), (ResultPlace{2, 0, 4}));
}

TEST(BenchAttentionReference, RanksWithoutRowsOwnNone) {
  const AttentionCell cell = cell_of("5x8", 4);  // 2, 2, 1 and none
  EXPECT_EQ(own_rows(cell, 2), 1);
  EXPECT_EQ(own_rows(cell, 3), 0);
}

TEST(BenchAttentionReference, KeysOfARow) {
  EXPECT_EQ(keys_seen(cell_of("101x6", 3), 0), 101);
  EXPECT_EQ(keys_seen(cell_of("101x6:causal", 3), 0), 1);
  EXPECT_EQ(keys_seen(cell_of("101x6:causal", 3), 100), 101);
  // 8 heads of queries and 2 of keys on each of two ranks.
  const AttentionCell grouped = cell_of("101x16:kv4", 2);
  EXPECT_EQ(key_head_of(grouped, 3), 0);
  EXPECT_EQ(key_head_of(grouped, 4), 1);
  EXPECT_EQ(key_head_of(grouped, 7), 1);
}

TEST(BenchAttentionReference, SampleHoldsBothSidesOfEveryChangeOfOwner) {
  const AttentionCell cell = cell_of("1000x8", 4);
  const std::vector<std::int64_t> rows = sampled_rows(cell, 8, 3);
  for (const std::int64_t row : {0, 249, 250, 499, 500, 749, 750, 999}) {
    EXPECT_TRUE(std::binary_search(rows.begin(), rows.end(), row)) << row;
  }
  EXPECT_TRUE(std::is_sorted(rows.begin(), rows.end()));
  EXPECT_THAT(sampled_rows(cell_of("3x8", 4), 16, 3), ElementsAre(0, 1, 2));
}

}  // namespace
}  // namespace xstage::bench::bench_reference_test
