#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

#include "bench/normal_pattern.hpp"
#include "bench/sampling.hpp"
#include "ops/moe/bench/reference.hpp"

namespace xstage::moe::reference_test {
namespace {

using bench::from_bf16;
using bench::to_bf16;
using testing::ElementsAre;

double silu(double value) { return value / (1 + std::exp(-value)); }

std::vector<std::uint16_t> bf16(const std::vector<float>& values) {
  std::vector<std::uint16_t> bits(values.size());
  std::transform(values.begin(), values.end(), bits.begin(), bench::to_bf16);
  return bits;
}

/// Weights in memory: [experts, rows, columns] each.
struct Layer {
  Layer(std::int64_t hidden, std::int64_t intermediate, int experts) {
    problem.hidden = hidden;
    problem.intermediate = intermediate;
    problem.experts_per_rank = experts;
    const auto count = static_cast<std::size_t>(experts * hidden * intermediate);
    const double deviation = 1 / std::sqrt(static_cast<double>(hidden));
    gate = bench::normal_pattern(count, deviation, 1);
    up = bench::normal_pattern(count, deviation, 2);
    linear2 = bench::normal_pattern(count, 1 / std::sqrt(static_cast<double>(intermediate)), 3);
  }

  [[nodiscard]] ExpertWeights weights() const {
    const auto rows_of = [this](const std::vector<std::uint16_t>& matrices, std::int64_t columns) {
      const std::int64_t elements = problem.hidden * problem.intermediate;
      return [&matrices, columns, elements](int expert, std::int64_t row) {
        return std::span(matrices).subspan(static_cast<std::size_t>(expert * elements + row * columns),
                                           static_cast<std::size_t>(columns));
      };
    };
    return {rows_of(gate, problem.hidden), rows_of(up, problem.hidden), rows_of(linear2, problem.intermediate)};
  }

  Problem problem;
  std::vector<std::uint16_t> gate;
  std::vector<std::uint16_t> up;
  std::vector<std::uint16_t> linear2;
};

/// 2 hidden, 1 intermediate, 2 experts, in round numbers.
Layer small_layer() {
  Layer layer(2, 1, 2);
  layer.gate = bf16({1, 2, -1, 0});
  layer.up = bf16({0.5F, 0, 3, 1});
  layer.linear2 = bf16({1, -2, 0.25F, 4});
  return layer;
}

const std::vector<std::int64_t> both_columns{0, 1};

TEST(MoeReference, ActivationIsWeightedSwiGlu) {
  EXPECT_EQ(activate(0, 5, 1, 0), 0);
  EXPECT_NEAR(activate(1, 2, 0.5, 0), 1 / (1 + std::exp(-1.0)), 1e-15);
  EXPECT_NEAR(activate(-1, 2, 0.5, 0), -1 / (1 + std::exp(1.0)), 1e-15);
  EXPECT_NEAR(activate(20, -30, 1, 0), -600, 1e-5);
  EXPECT_EQ(activate(-2000, 3, 1, 0), 0) << "exp of it is no double";
}

TEST(MoeReference, ClampHoldsGateFromAboveAndUpOnBothSides) {
  EXPECT_EQ(activate(9, 1, 1, 7), silu(7));
  EXPECT_EQ(activate(-9, 1, 1, 7), silu(-9)) << "gate is not held from below";
  EXPECT_EQ(activate(1, 9, 1, 7), silu(1) * 7);
  EXPECT_EQ(activate(1, -9, 1, 7), silu(1) * -7);
  EXPECT_EQ(activate(9, 9, 10, 7), 10 * silu(7) * 7) << "the router weight comes after it";
  EXPECT_EQ(activate(9, 9, 1, 0), silu(9) * 9) << "0: no clamp";
}

TEST(MoeReference, SmallLayerByHand) {
  const Layer layer = small_layer();
  const std::vector<std::uint16_t> token = bf16({2, -1});
  // Expert 0: gate 0 gives nothing. Expert 1: gate -2, up 5.
  const std::vector<std::int32_t> experts{1, 0};
  const std::vector<float> router_weights{0.5F, 0.25F};
  const ReferenceResult result = layer_columns(layer.problem, {token, experts, router_weights}, both_columns,
                                               layer.weights(), Combine::rows, Rounding::none);
  const double activated = 0.5 * silu(-2) * 5;
  EXPECT_NEAR(result.expected[0], activated * 0.25, 1e-12);
  EXPECT_NEAR(result.expected[1], activated * 4, 1e-12);
  // A row's rounding, and that of its only term, of the same size.
  EXPECT_NEAR(result.spread[1], std::sqrt(2.0) * std::abs(activated) * 4, 1e-12);
  const ReferenceResult one =
      layer_columns(layer.problem, {token, experts, router_weights}, std::vector<std::int64_t>{1}, layer.weights(),
                    Combine::rows, Rounding::none);
  EXPECT_THAT(one.expected, ElementsAre(result.expected[1])) << "columns can be asked for alone";
}

TEST(MoeReference, RoundsWhereKernelsDo) {
  const Layer layer = small_layer();
  const std::vector<std::uint16_t> token = bf16({1, 1});  // expert 0: gate 3, up 0.5; expert 1: gate -1, up 4
  const auto rounded = [](double value) { return static_cast<double>(from_bf16(to_bf16(static_cast<float>(value)))); };
  const std::vector<double> activated =
      activated_row(layer.problem, token, 0, 0.7F, layer.weights(), Rounding::as_kernels);
  const double exact = static_cast<double>(0.7F) * silu(3) * 0.5;
  EXPECT_NE(rounded(exact), exact);
  EXPECT_THAT(activated, ElementsAre(rounded(exact)));

  const std::vector<std::int32_t> experts{0, 1};
  const std::vector<float> router_weights{0.7F, 0.3F};
  const ReferenceResult result =
      layer_columns(layer.problem, {token, experts, router_weights}, both_columns, layer.weights(), Combine::rows);
  const double other = rounded(static_cast<double>(0.3F) * silu(-1) * 4);
  EXPECT_EQ(result.expected[0], rounded(rounded(exact) + rounded(other * 0.25)));
  EXPECT_EQ(result.expected[1], rounded(rounded(exact) * -2 + rounded(other * 4)));
}

TEST(MoeReference, ChoicesWithoutExpertTakeNoPart) {
  const Layer layer = small_layer();
  const std::vector<std::uint16_t> token = bf16({1, 1});
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto result_of = [&](const std::vector<std::int32_t>& experts, const std::vector<float>& router_weights) {
    return layer_columns(layer.problem, {token, experts, router_weights}, both_columns, layer.weights(), Combine::rows)
        .expected;
  };
  EXPECT_EQ(result_of({-1, 1, -1}, {nan, 0.5F, nan}), result_of({1}, {0.5F}));
  EXPECT_THAT(result_of({-1, -1}, {nan, nan}), ElementsAre(0, 0));
  EXPECT_NE(result_of({1}, {0.5F}), result_of({0}, {0.5F}));
  EXPECT_EQ(result_of({1, 1}, {0.5F, 0.5F}), result_of({1}, {1.0F})) << "an expert may stand twice";
}

TEST(MoeReference, CombineAddsInOrderInFp32) {
  // 2^24 + 1 + 1: added in order the ones are lost; the other way round they are not, and nor are they in bf16's range.
  const float large = 16777216.0F;
  const auto sum = [](const std::vector<float>& rows) {
    return from_bf16(combine_rows(bf16(rows), rows.size()).front());
  };
  EXPECT_EQ(sum({large, 1, -large}), 0);
  EXPECT_EQ(sum({large, -large, 1}), 1);
  EXPECT_EQ(sum({256, 1, 1, -256}), 2) << "partial sums are not rounded to bf16, where 257 is 256";
  EXPECT_EQ(sum({256, 1}), 256) << "the result is: halfway, to even";
  EXPECT_THAT(combine_rows(bf16({1, 2, 10, 20, 100, 200}), 3), ElementsAre(to_bf16(111), to_bf16(222)));
}

TEST(MoeReference, LayerAddsInTheOrderOfChoicesInFp32) {
  // Rows of 2^24, 1 and -2^24.
  Layer layer(1, 1, 3);
  layer.gate = bf16({64, 64, 64});
  layer.up = bf16({1, 1, 1});
  layer.linear2 = bf16({262144, 0.015625F, -262144});
  const std::vector<std::uint16_t> token = bf16({1});
  const std::vector<float> ones{1, 1, 1};
  const std::vector<std::int64_t> column{0};
  const auto result_of = [&](const std::vector<std::int32_t>& experts, Rounding rounding) {
    return layer_columns(layer.problem, {token, experts, ones}, column, layer.weights(), Combine::rows, rounding)
        .expected.front();
  };
  EXPECT_EQ(result_of({0, 1, 2}, Rounding::as_kernels), 0);
  EXPECT_EQ(result_of({0, 2, 1}, Rounding::as_kernels), 1);
  EXPECT_EQ(result_of({0, 1, 2}, Rounding::none), 1);
}

/// Rows of 256, 1, 1, 1 and -256: 257 is no bf16.
TEST(MoeReference, PartialSumsAreRoundedAndStandWhereTheirFirstRowWould) {
  Layer layer(1, 1, 5);
  layer.gate = bf16({64, 64, 64, 64, 64});
  layer.up = bf16({1, 1, 1, 1, 1});
  layer.linear2 = bf16({4, 0.015625F, 0.015625F, 0.015625F, -4});
  layer.problem.experts_per_rank = 2;  // ranks have 256 and 1, 1 and 1, -256
  const std::vector<std::uint16_t> token = bf16({1});
  const std::vector<std::int64_t> column{0};
  const auto result_on = [&](int rank, const std::vector<std::int32_t>& experts, Combine combine, Rounding rounding) {
    const std::vector<float> weights(experts.size(), 1);
    return layer_columns(layer.problem, {token, experts, weights, rank}, column, layer.weights(), combine, rounding);
  };
  const auto sum_on = [&](int rank, const std::vector<std::int32_t>& experts) {
    return result_on(rank, experts, Combine::partial_sums, Rounding::as_kernels).expected.front();
  };
  const std::vector<std::int32_t> all{0, 1, 2, 3, 4};
  EXPECT_EQ(result_on(1, all, Combine::rows, Rounding::as_kernels).expected.front(), 3);
  EXPECT_EQ(sum_on(0, all), 3) << "256 + 1 in fp32, 1 + 1 and -256 as they came";
  EXPECT_EQ(sum_on(1, all), 2) << "256 + 1 has become 256";
  EXPECT_EQ(sum_on(2, all), 2);
  EXPECT_EQ(result_on(2, all, Combine::partial_sums, Rounding::none).expected.front(), 3);
  // 2^24 + 1 is no fp32 number. 2^24 of rank 0, 1 and 1 of rank 1, -2^24 of rank 2.
  layer.linear2 = bf16({262144, 0, 0.015625F, 0.015625F, -262144});
  EXPECT_EQ(sum_on(0, {0, 2, 4, 3}), 2) << "2^24 and then 2";
  EXPECT_EQ(sum_on(1, {0, 2, 4, 3}), 1) << "its own rows one by one: 2^24 and then 1, which is lost";
  // What is rounded once more counts in the spread: two rows of 1, their terms, and the sum of 2.
  const double terms_and_rows = 4;
  EXPECT_DOUBLE_EQ(result_on(1, {2, 3}, Combine::partial_sums, Rounding::none).spread.front(),
                   std::sqrt(terms_and_rows));
  EXPECT_DOUBLE_EQ(result_on(0, {2, 3}, Combine::partial_sums, Rounding::none).spread.front(),
                   std::sqrt(terms_and_rows + 4));
}

TEST(MoeReference, BadSizesAreMistakes) {
  const Layer layer = small_layer();
  const std::vector<std::uint16_t> token = bf16({1, 1});
  const std::vector<std::uint16_t> longer = bf16({1, 1, 1});
  const std::vector<std::int32_t> experts{1, 0};
  const std::vector<float> one{1};
  const std::vector<float> two{1, 1};
  EXPECT_THROW(static_cast<void>(
                   layer_columns(layer.problem, {token, experts, one}, both_columns, layer.weights(), Combine::rows)),
               std::logic_error);
  EXPECT_THROW(static_cast<void>(
                   layer_columns(layer.problem, {longer, experts, two}, both_columns, layer.weights(), Combine::rows)),
               std::logic_error);
  EXPECT_THROW(static_cast<void>(combine_rows(longer, 2)), std::logic_error);
  EXPECT_THROW(static_cast<void>(combine_rows(longer, 0)), std::logic_error);
  EXPECT_THROW(static_cast<void>(largest_error(one, {{1, 2}, {1, 1}})), std::logic_error);
}

// ---- tolerance: what a kernel may do, and what it may not

struct Deviation {
  int forgotten = -1;        // choice
  bool swapped = false;      // gate and up
  bool unweighted = false;   // router weight left out of one choice
  bool rounds_gate = false;  // gate and up rounded to bf16 as well
};

/// The layer as a kernel computes it: in fp32, in an order of its own.
std::vector<float> computed(const Layer& layer, const std::vector<std::uint16_t>& token,
                            const std::vector<int>& experts, const std::vector<float>& router_weights,
                            const Deviation& deviation) {
  const ExpertWeights weights = layer.weights();
  const auto multiply = [](std::span<const std::uint16_t> row, const std::vector<std::uint16_t>& with) {
    float partial[4] = {};
    for (std::size_t index = 0; index < row.size(); ++index) {
      partial[index % 4] += from_bf16(row[index]) * from_bf16(with[index]);
    }
    return (partial[0] + partial[1]) + (partial[2] + partial[3]);
  };
  std::vector<float> sums(static_cast<std::size_t>(layer.problem.hidden));
  for (std::size_t choice = 0; choice < experts.size(); ++choice) {
    if (static_cast<int>(choice) == deviation.forgotten) {
      continue;
    }
    const float factor = deviation.unweighted && choice == 1 ? 1 : router_weights[choice];
    std::vector<std::uint16_t> activated;
    for (std::int64_t row = 0; row < layer.problem.intermediate; ++row) {
      float gate = multiply(weights.gate(experts[choice], row), token);
      float up = multiply(weights.up(experts[choice], row), token);
      gate = deviation.rounds_gate ? from_bf16(to_bf16(gate)) : gate;
      if (deviation.swapped) {
        std::swap(gate, up);
      }
      activated.push_back(to_bf16(factor * (gate / (1 + std::exp(-gate))) * up));
    }
    for (std::size_t column = 0; column < sums.size(); ++column) {
      const float row = multiply(weights.linear2(experts[choice], static_cast<std::int64_t>(column)), activated);
      sums[column] += from_bf16(to_bf16(row));
    }
  }
  for (float& sum : sums) {
    sum = from_bf16(to_bf16(sum));
  }
  return sums;
}

TEST(MoeReference, RoundingIsAllowedAndMistakesAreNot) {
  const Layer layer(192, 64, 6);
  std::vector<std::int64_t> columns;
  for (std::int64_t column = 0; column < layer.problem.hidden; ++column) {
    columns.push_back(column);
  }
  const std::vector<std::int32_t> experts{4, 1, 5, 0};
  const std::vector<float> router_weights{0.4F, 0.3F, 0.2F, 0.1F};
  for (std::uint64_t seed = 10; seed < 14; ++seed) {
    const std::vector<std::uint16_t> token = bench::normal_pattern(192, 1, seed);
    for (const Rounding rounding : {Rounding::as_kernels, Rounding::none}) {
      const ReferenceResult reference = layer_columns(layer.problem, {token, experts, router_weights}, columns,
                                                      layer.weights(), Combine::rows, rounding);
      const auto error_with = [&](const Deviation& deviation) {
        return largest_error(computed(layer, token, experts, router_weights, deviation), reference);
      };
      EXPECT_LE(error_with({}), bench::most_roundings);
      for (int choice = 0; choice < 4; ++choice) {
        EXPECT_GT(error_with({.forgotten = choice}), 2 * bench::most_roundings) << choice;
      }
      EXPECT_GT(error_with({.swapped = true}), 2 * bench::most_roundings);
      EXPECT_GT(error_with({.unweighted = true}), 2 * bench::most_roundings);
      std::vector<float> result = computed(layer, token, experts, router_weights, {});
      result[17] = std::numeric_limits<float>::quiet_NaN();
      EXPECT_EQ(largest_error(result, reference), std::numeric_limits<double>::infinity());
    }
  }
}

}  // namespace
}  // namespace xstage::moe::reference_test
