// SwiGLU of the grouped GEMM against the reference in double, where exponentials overflow, vanish or are NaN.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "gpu/rank_support.hpp"
#include "ops/moe/bench/reference.hpp"
#include "ops/moe/test/gpu/activation_device.hpp"

namespace xstage::activation_test {
namespace {

using moe_test::activate_on_device;

constexpr float up = 1.25F;
constexpr float weight = -0.75F;
constexpr float infinite = std::numeric_limits<float>::infinity();
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();
/// Error of gates below -40: silu(-40), times `up` and `weight`.
constexpr double vanishing = 2e-16;

double expected(float gate, float clamp) {
  return moe::activate(static_cast<double>(gate), static_cast<double>(up), static_cast<double>(weight), clamp);
}

/// Each value, with every other one as its neighbour on either side.
std::vector<float> pairs_of(const std::vector<float>& values) {
  std::vector<float> pairs;
  for (const float one : values) {
    for (const float other : values) {
      pairs.push_back(one);
      pairs.push_back(other);
    }
  }
  return pairs;
}

void expect_right(const std::vector<float>& gates, float clamp) {
  const std::vector<float> results = activate_on_device(gates, up, weight, clamp);
  for (std::size_t index = 0; index < gates.size(); ++index) {
    SCOPED_TRACE(testing::Message() << "gate " << gates[index] << " beside " << gates[index ^ 1U] << ", clamp "
                                    << clamp);
    const double right = expected(gates[index], clamp);
    const auto result = static_cast<double>(results[index]);
    if (std::isnan(right) || std::isinf(right)) {
      EXPECT_EQ(std::isnan(result), std::isnan(right)) << result;
      EXPECT_TRUE(std::isnan(right) || result == right) << result << " instead of " << right;
    } else {
      EXPECT_NEAR(result, right, vanishing + 1e-5 * std::fabs(right));
    }
  }
}

TEST(MoeActivation, IsRightForEveryGateAndItsNeighbour) {
  SKIP_WITHOUT_HOPPER(1);
  std::vector<float> gates{0.0F, -0.0F, 1e-30F, -1e-30F, 0.5F, -0.5F, 39.0F, 88.0F, 89.0F, 1e30F, 3e38F};
  for (int gate = 30; gate <= 200; gate += 2) {
    gates.push_back(-static_cast<float>(gate));
  }
  // A factor of such a gate beside the exponential of -40 would be off by 4e12 and 1e21.
  gates.insert(gates.end(), {-39.99F, -40.0F, -40.01F, -1e4F, -1e30F, -3e38F});
  for (const float clamp : {0.0F, 7.0F}) {
    expect_right(pairs_of(gates), clamp);
  }
}

/// Results are those of gate / (1 + exp(-gate)), as PyTorch computes it: silu(-inf) is NaN, silu(inf) is inf. They do
/// not change a neighbour's result.
TEST(MoeActivation, WhatIsNoNumberStaysSo) {
  SKIP_WITHOUT_HOPPER(1);
  for (const float clamp : {0.0F, 7.0F}) {
    expect_right(pairs_of({infinite, -infinite, not_a_number, 1.5F, -50.0F, 100.0F}), clamp);
  }
}

/// The result is not only small but zero, with the sign of the product.
TEST(MoeActivation, VeryNegativeGatesVanish) {
  SKIP_WITHOUT_HOPPER(1);
  for (const float result : activate_on_device({-41.0F, -3e38F, -100.0F, -200.0F}, 1.0F, 1.0F, 0)) {
    EXPECT_EQ(result, 0.0F);
    EXPECT_TRUE(std::signbit(result));
  }
}

}  // namespace
}  // namespace xstage::activation_test
