#include "bench/normal_pattern.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

namespace xstage::bench::bench_normal_pattern_test {
namespace {

TEST(BenchNormalPattern, RoundsToNearestEven) {
  EXPECT_EQ(to_bf16(1.0F), 0x3F80U);
  EXPECT_EQ(to_bf16(1.0F + 0x1p-8F), 0x3F80U);  // half-way, down to even
  EXPECT_EQ(to_bf16(1.0F + 0x3p-8F), 0x3F82U);  // half-way, up to even
  EXPECT_EQ(to_bf16(1.0F + 0x1.01p-8F), 0x3F81U);
  EXPECT_EQ(from_bf16(to_bf16(-0.375F)), -0.375F);
}

TEST(BenchNormalPattern, IsNormallyDistributed) {
  const std::size_t count = 400000;
  double sum = 0;
  double squares = 0;
  double fourth_powers = 0;
  double beyond_two = 0;
  for (const std::uint16_t bits : normal_pattern(count, 0.5, 7)) {
    const double value = static_cast<double>(from_bf16(bits)) / 0.5;
    sum += value;
    squares += value * value;
    fourth_powers += value * value * value * value;
    beyond_two += std::abs(value) > 2 ? 1.0 : 0.0;
  }
  const auto n = static_cast<double>(count);
  EXPECT_NEAR(sum / n, 0, 0.01);
  EXPECT_NEAR(squares / n, 1, 0.01);
  EXPECT_NEAR(fourth_powers / n, 3, 0.05);
  EXPECT_NEAR(beyond_two / n, 0.0455, 0.003);
}

TEST(BenchNormalPattern, DependsOnTheSeedAlone) {
  EXPECT_EQ(normal_pattern(1001, 1, 3), normal_pattern(1001, 1, 3));
  EXPECT_NE(normal_pattern(1001, 1, 3), normal_pattern(1001, 1, 4));
  const std::vector<std::uint16_t> pattern = normal_pattern(1000, 1, 3);
  EXPECT_GT(std::set<std::uint16_t>(pattern.begin(), pattern.end()).size(), 300U);
}

}  // namespace
}  // namespace xstage::bench::bench_normal_pattern_test
