#include "bench/normal_pattern.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "bench/random_bits.hpp"

namespace xstage::bench {

namespace {

constexpr std::size_t quantiles = 65536;

double normal_probability(double value) { return 0.5 * std::erfc(-value / std::sqrt(2.0)); }

double normal_density(double value) { return std::exp(-0.5 * value * value) / std::sqrt(2.0 * std::acos(-1.0)); }

/// The value below which a standard normal variable lies with this probability, by Newton's method from a lower value.
/// There the distribution function is convex (probability < 1/2), so the steps do not overshoot and do not stop short.
double quantile(double probability, double from) {
  double value = from;
  for (int step = 0; step < 50; ++step) {
    const double change = (normal_probability(value) - probability) / normal_density(value);
    value -= change;
    if (std::abs(change) < 1e-12) {
      break;
    }
  }
  return value;
}

/// Quantiles at the middle of 65536 equal steps, so that 16 random bits choose one. The upper half mirrors the lower.
std::vector<double> standard_normal_quantiles() {
  std::vector<double> values(quantiles);
  double value = -4.5;
  for (std::size_t index = 0; index < quantiles / 2; ++index) {
    value = quantile((static_cast<double>(index) + 0.5) / quantiles, value);
    values[index] = value;
    values[quantiles - 1 - index] = -value;
  }
  return values;
}

}  // namespace

std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16U) & 1U)) >> 16U);
}

float from_bf16(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U); }

std::vector<std::uint16_t> normal_pattern(std::size_t count, double deviation, std::uint64_t seed) {
  static const std::vector<double> standard = standard_normal_quantiles();
  std::vector<std::uint16_t> table(quantiles);
  std::transform(standard.begin(), standard.end(), table.begin(),
                 [&](double value) { return to_bf16(static_cast<float>(value * deviation)); });
  std::vector<std::uint16_t> pattern(count);
  std::uint64_t bits = 0;
  for (std::size_t index = 0; index < count; ++index) {
    bits = index % 4 == 0 ? random_bits(seed, index / 4) : bits >> 16U;
    pattern[index] = table[bits & 0xFFFFU];
  }
  return pattern;
}

}  // namespace xstage::bench
