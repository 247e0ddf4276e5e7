#pragma once
// Softmax over keys that arrive block by block. A thread holds parts of two rows, r and r + 8:
//   scores[4 * block + 2 * i + j]  is  row  16 * warp + lane / 4 + 8 * i,  key  8 * block + 2 * (lane % 4) + j
// The four threads of a row agree on its maximum in every block; its sum stays in four parts until the end.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cutlass/numeric_types.h>

#include <cstdint>
#include <type_traits>

namespace xstage::kernels {

__device__ inline float power_of_two(float exponent) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(exponent));
  return result;
}

__device__ inline float quad_maximum(float value) {
  value = fmaxf(value, __shfl_xor_sync(0xFFFFFFFFU, value, 1));
  return fmaxf(value, __shfl_xor_sync(0xFFFFFFFFU, value, 2));
}

__device__ inline float quad_sum(float value) {
  value += __shfl_xor_sync(0xFFFFFFFFU, value, 1);
  return value + __shfl_xor_sync(0xFFFFFFFFU, value, 2);
}

/// Two elements in one register, the first in the low half.
template <class Element>
__device__ inline std::uint32_t pack_pair(float low, float high) {
  if constexpr (std::is_same_v<Element, cutlass::bfloat16_t>) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<const std::uint32_t*>(&pair);
  } else {
    const __half2 pair = __floats2half2_rn(low, high);
    return *reinterpret_cast<const std::uint32_t*>(&pair);
  }
}

/// `Values` is the number of scores of one thread.
template <std::size_t Values>
class OnlineSoftmax {
 public:
  using Scores = float (&)[Values];

  __device__ explicit OnlineSoftmax(float scale_log2) : scale_(scale_log2) {}

  __device__ void start() {
#pragma unroll
    for (std::size_t row = 0; row < 2; ++row) {
      maximum_[row] = -INFINITY;
      sum_[row] = 0.0F;
    }
  }

  /// Updates the maxima from a block's scores. `correction` is the factor by which earlier results of the two rows must
  /// be multiplied, since their maximum may have grown. Skipping the multiplication where the factor is 1, by a vote of
  /// the warp, was slower: the branch keeps the compiler from filling the gaps between exponentials with it.
  ///
  /// Powers are relative to the rounded product of maximum and scale, the reference, and the correction is computed
  /// from these rounded references: it is 1 if the maximum stays, and the references of all blocks cancel.
  __device__ void raise_maximum(Scores scores, float (&correction)[2]) {
#pragma unroll
    for (std::size_t row = 0; row < 2; ++row) {
      const float maximum = fmaxf(maximum_[row], quad_maximum(block_maximum(scores, row)));
      // A row without keys so far: any finite number avoids -inf - -inf.
      reference_[row] = maximum == -INFINITY ? 0.0F : scaled(maximum);
      correction[row] = power_of_two(scaled(maximum_[row]) - reference_[row]);
      maximum_[row] = maximum;
      sum_[row] *= correction[row];
    }
    if (__any_sync(0xFFFFFFFFU, fmaxf(fabsf(reference_[0]), fabsf(reference_[1])) >= largest_reference)) {
      subtract_maximum(scores);
    }
  }

  /// Replaces the scores of 8-key blocks [First, Last) by powers of two relative to the row's maximum, and adds them to
  /// its sum.
  template <std::size_t First, std::size_t Last>
  __device__ void exponentiate(Scores scores) {
#pragma unroll
    for (std::size_t row = 0; row < 2; ++row) {
      float odd = 0.0F;  // two chains of additions for each row
#pragma unroll
      for (std::size_t block = First; block < Last; ++block) {
        float& even_score = scores[4 * block + 2 * row];
        float& odd_score = scores[4 * block + 2 * row + 1];
        even_score = power_of_two(even_score * scale_ - reference_[row]);
        odd_score = power_of_two(odd_score * scale_ - reference_[row]);
        sum_[row] += even_score;
        odd += odd_score;
      }
      sum_[row] += odd;
    }
  }

  /// The row's sum over all keys; the four threads of a row get the same.
  [[nodiscard]] __device__ float total(int row) const { return quad_sum(sum_[row]); }

  /// Natural logarithm of the sum of the exponentials, from `total`.
  [[nodiscard]] __device__ float log_sum_exp(int row, float total) const {
    constexpr float log_of_2 = 0.69314718F;
    return scaled(maximum_[row]) * log_of_2 + __logf(total);
  }

  /// Maxima and sums of this thread's rows. States of the same rows over different keys can be merged.
  [[nodiscard]] __device__ float4 state() const { return {maximum_[0], maximum_[1], sum_[0], sum_[1]}; }
  __device__ void set_state(const float4& state) {
    maximum_[0] = state.x;
    maximum_[1] = state.y;
    sum_[0] = state.z;
    sum_[1] = state.w;
  }

  /// Factor that changes results relative to maximum `from` into results relative to `to`, which is finite.
  [[nodiscard]] __device__ float correction_of(float from, float to) const {
    return power_of_two(scaled(from) - scaled(to));
  }

 private:
  /// References above this are not used: their rounding error is in every power of the row, and powers would soon
  /// overflow or vanish, because a fused multiply and add has the exact product of score and scale.
  static constexpr float largest_reference = 1048576.0F;

  /// The product is rounded here, whatever is added to it afterwards.
  [[nodiscard]] __device__ float scaled(float score) const { return __fmul_rn(score, scale_); }

  /// Makes scores relative to their row's maximum, which is exact for scores near it, and powers relative to that. Only
  /// for huge scores: for all of them it would cost one more addition a score.
  __device__ void subtract_maximum(Scores scores) {
#pragma unroll
    for (std::size_t row = 0; row < 2; ++row) {
      const float maximum = maximum_[row] == -INFINITY ? 0.0F : maximum_[row];
#pragma unroll
      for (std::size_t block = 0; block < Values / 4; ++block) {
        scores[4 * block + 2 * row] -= maximum;
        scores[4 * block + 2 * row + 1] -= maximum;
      }
      reference_[row] = 0.0F;
    }
  }

  __device__ static float block_maximum(Scores scores, std::size_t row) {
    float even = scores[2 * row];
    float odd = scores[2 * row + 1];
#pragma unroll
    for (std::size_t block = 1; block < Values / 4; ++block) {
      even = fmaxf(even, scores[4 * block + 2 * row]);
      odd = fmaxf(odd, scores[4 * block + 2 * row + 1]);
    }
    return fmaxf(even, odd);
  }

  const float scale_;
  float maximum_[2];
  float reference_[2];  // reference of a block's powers: the scaled maximum, unless scores are relative to the maximum
  float sum_[2];
};

}  // namespace xstage::kernels
