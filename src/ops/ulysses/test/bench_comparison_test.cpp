#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

#include "bench/normal_pattern.hpp"
#include "ops/ulysses/bench/comparison.hpp"

namespace xstage::bench::bench_comparison_test {
namespace {

using Bits = std::vector<std::uint16_t>;

TEST(BenchUlyssesComparison, ErrorsAreInRoundingsOfWhatIsExpected) {
  SampledErrors errors;
  EXPECT_EQ(errors.largest(), 0);
  errors.add(3.0F, 3.0);
  EXPECT_EQ(errors.largest(), 0);
  errors.add(-3.0F + 0.0234375F, -3.0);  // 6 / 256 off, where |expected| and the root mean square are 3
  EXPECT_DOUBLE_EQ(errors.largest(), 1);
}

TEST(BenchUlyssesComparison, SmallElementsAreMeasuredByTheSizeOfAll) {
  SampledErrors errors;
  errors.add(0.0078125F, 0.0);
  errors.add(std::sqrt(2.0F), static_cast<double>(std::sqrt(2.0F)));
  EXPECT_NEAR(errors.largest(), 2, 1e-6);  // root mean square 1
}

TEST(BenchUlyssesComparison, WhatIsNotANumberIsAsWrongAsCanBe) {
  SampledErrors errors;
  errors.add(1.0F, 1.0);
  errors.add(std::numeric_limits<float>::quiet_NaN(), 1.0);
  EXPECT_EQ(errors.largest(), std::numeric_limits<double>::infinity());
}

TEST(BenchUlyssesComparison, DotIsInDouble) {
  const std::vector<float> one{16777216.0F, 1.0F, -16777216.0F};
  const std::vector<float> ones(3, 1.0F);
  EXPECT_DOUBLE_EQ(dot(one, ones), 1);
  EXPECT_THROW(static_cast<void>(dot(one, std::vector<float>(2))), std::logic_error);
}

TEST(BenchUlyssesComparison, ResultsDifferByTheirBits) {
  const Bits result{to_bf16(1.0F), to_bf16(0.0F), to_bf16(-2.5F), 0x7F80};
  EXPECT_EQ(count_differing(result, result), 0);
  Bits other = result;
  other[0] ^= 1U;      // the last bit
  other[1] ^= 0x8000;  // minus zero
  EXPECT_EQ(count_differing(result, other), 2);
  EXPECT_THROW(static_cast<void>(count_differing(result, Bits(3))), std::logic_error);
}

TEST(BenchUlyssesComparison, WhatNobodyHasWrittenDiffers) {
  EXPECT_EQ(count_differing(Bits{0xFFFF, 0x7FC0, 0x3F80}, Bits{0xFFFF, 0x7FC0, 0x3F80}), 2);
}

}  // namespace
}  // namespace xstage::bench::bench_comparison_test
