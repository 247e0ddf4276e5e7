#pragma once
// SwiGLU on accumulators: one thread holds gate and up of the same column (see tile/epilogue.cuh for what is
// where, ops/moe/packing.hpp for why).

#include <cstddef>
#include <cstdint>

namespace xstage::kernels {

// Without the handling of denormals that __expf and __fdividef compile to: a sum of 1 and something positive has none.
__device__ inline float fast_exp2(float value) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(value));
  return result;
}

__device__ inline float fast_reciprocal(float value) {
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(value));
  return result;
}

/// NaN stays NaN, unlike fminf and fmaxf.
__device__ inline float limit_above(float value, float limit) {
  float result;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(value), "f"(limit));
  return result;
}
__device__ inline float limit_below(float value, float limit) {
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(value), "f"(limit));
  return result;
}

/// Below it silu is less than 2e-16, and is taken for 0.
inline constexpr float least_gate = -40.0F;

/// 1 + exp(-gate). Below least_gate as there: so the product of two of them does not overflow.
__device__ inline float one_plus_exp(float gate) {
  constexpr float log2_e = 1.44269504F;
  return 1.0F + fast_exp2(fminf(gate * -log2_e, least_gate * -log2_e));
}

/// silu(gate) from 1 / (1 + exp(-gate)) of a gate that one_plus_exp() has not changed, else gate * 0: -0, and for -inf
/// NaN, as gate / (1 + exp(-gate)) is; NaN stays NaN.
__device__ inline float silu(float gate, float sigmoid) { return gate * (gate < least_gate ? 0.0F : sigmoid); }

/// silu(gate) * up * weight of two columns of a row, for one reciprocal: the multiprocessor has 16 units for those and
/// for exponentials, and they are what this takes the longest for.
template <bool Clamped>
__device__ inline void activate_pair(const float (&gate_in)[2], const float (&up_in)[2], float weight, float clamp,
                                     float (&result)[2]) {
  float gate[2] = {gate_in[0], gate_in[1]};
  float up[2] = {up_in[0], up_in[1]};
  if constexpr (Clamped) {
#pragma unroll
    for (int column = 0; column < 2; ++column) {
      gate[column] = limit_above(gate[column], clamp);
      up[column] = limit_below(limit_above(up[column], clamp), -clamp);
    }
  }
  const float first = one_plus_exp(gate[0]);
  const float second = one_plus_exp(gate[1]);
  const float reciprocal = fast_reciprocal(first * second);
  result[0] = silu(gate[0], reciprocal * second) * (up[0] * weight);
  result[1] = silu(gate[1], reciprocal * first) * (up[1] * weight);
}

/// From 16 columns of sums, 8 of the gate and 8 of up, to 8 of activations, and so on for `Results / 2` columns.
/// `weights`: of this thread's two rows.
template <bool Clamped, std::size_t Results>
__device__ inline void apply_swiglu(const float* sums, const float (&weights)[2], float clamp,
                                    float (&results)[Results]) {
#pragma unroll
  for (int block = 0; block < static_cast<int>(Results) / 4; ++block) {
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const float gate[2] = {sums[8 * block + 2 * row], sums[8 * block + 2 * row + 1]};
      const float up[2] = {sums[8 * block + 4 + 2 * row], sums[8 * block + 4 + 2 * row + 1]};
      float result[2];
      activate_pair<Clamped>(gate, up, weights[row], clamp, result);
      results[4 * block + 2 * row] = result[0];
      results[4 * block + 2 * row + 1] = result[1];
    }
  }
}

}  // namespace xstage::kernels
