#pragma once
// SwiGLU on accumulators. One thread holds gate and up of the same column: tile/epilogue.cuh says which values a thread
// holds, and ops/moe/packing.hpp why.

#include <cstddef>
#include <cstdint>

namespace xstage::kernels {

// Exponential without the handling of denormals to which __expf and __fdividef compile: a sum of 1 and a positive
// number is never denormal.
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

/// Below this gate silu is less than 2e-16 and is taken as 0.
inline constexpr float least_gate = -40.0F;

/// 1 + exp(-gate). A gate below least_gate counts as least_gate, so that the product of two such numbers does not
/// overflow.
__device__ inline float one_plus_exp(float gate) {
  constexpr float log2_e = 1.44269504F;
  return 1.0F + fast_exp2(fminf(gate * -log2_e, least_gate * -log2_e));
}

/// silu(gate) from sigmoid = 1 / (1 + exp(-gate)). A gate below least_gate gives gate * 0 instead: -0, or NaN for -inf,
/// as gate / (1 + exp(-gate)) does. NaN stays NaN.
__device__ inline float silu(float gate, float sigmoid) { return gate * (gate < least_gate ? 0.0F : sigmoid); }

/// silu(gate) * up * weight of two columns of a row, with one reciprocal for both: a multiprocessor has only 16 units
/// for reciprocals and exponentials, which take most of the time here.
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

/// Turns each 16 columns of sums, 8 of the gate and 8 of up, into 8 columns of activations, `Results / 2` columns in
/// all. `weights` are those of this thread's two rows.
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
