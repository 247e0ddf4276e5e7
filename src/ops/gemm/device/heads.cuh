#pragma once
// Steps of the QKV projection on each head: RMS norm over the head and rotary embedding, in registers. A tile holds
// whole heads, and a quad of lanes holds a whole row of each.

#include <cstdint>

#include "ops/gemm/device/parameters.hpp"

namespace xstage::kernels {

/// `values` is one head of this thread's two rows, HeadDim / 2 values of them. Order and rows are as in epilogue.cuh.
template <int HeadDim>
__device__ inline void normalise_head(float* values, const float* weight, float epsilon) {
  float squares[2] = {0.0F, 0.0F};
#pragma unroll
  for (int value = 0; value < HeadDim / 2; ++value) {
    squares[value / 2 % 2] += values[value] * values[value];
  }
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    squares[row] += __shfl_xor_sync(0xFFFFFFFFU, squares[row], 1);
    squares[row] += __shfl_xor_sync(0xFFFFFFFFU, squares[row], 2);
    squares[row] = rsqrtf(squares[row] / static_cast<float>(HeadDim) + epsilon);
  }
  const auto lane_column = 2U * (threadIdx.x % 4U);
#pragma unroll
  for (int block = 0; block < HeadDim / 8; ++block) {
    const float2 pair = *reinterpret_cast<const float2*>(weight + 8 * block + lane_column);
    values[4 * block] *= squares[0] * pair.x;
    values[4 * block + 1] *= squares[0] * pair.y;
    values[4 * block + 2] *= squares[1] * pair.x;
    values[4 * block + 3] *= squares[1] * pair.y;
  }
}

/// Rotates columns i and i + HeadDim / 2 (the convention of LLaMA), both of which this thread holds.
template <int HeadDim>
__device__ inline void rotate_head(float* values, const GemmEpilogue& epilogue, std::int32_t position) {
  const auto lane_column = 2U * (threadIdx.x % 4U);
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    // `rotary` is [positions, HeadDim / 2, 2]. Rows beyond the last one are computed but not stored, so any valid entry
    // serves.
    const std::int32_t entry = min(position + 8 * row, epilogue.positions - 1);
    const float* table = epilogue.rotary + static_cast<std::int64_t>(entry) * HeadDim + 2U * lane_column;
#pragma unroll
    for (int block = 0; block < HeadDim / 16; ++block) {
      const float4 angles = *reinterpret_cast<const float4*>(table + 16 * block);
      float* low = values + 4 * block + 2 * row;
      float* high = low + HeadDim / 4;
      const float first[2] = {low[0], low[1]};
      low[0] = first[0] * angles.x - high[0] * angles.y;
      high[0] = high[0] * angles.x + first[0] * angles.y;
      low[1] = first[1] * angles.z - high[1] * angles.w;
      high[1] = high[1] * angles.z + first[1] * angles.w;
    }
  }
}

template <int HeadDim, std::size_t Values>
__device__ inline void apply_head_steps(float (&values)[Values], const GemmEpilogue& epilogue,
                                        const GemmRegionTarget& target, std::int32_t position) {
#pragma unroll
  for (int head = 0; head < static_cast<int>(Values) / (HeadDim / 2); ++head) {
    float* mine = values + head * (HeadDim / 2);
    if ((target.head_steps & 1) != 0) {
      normalise_head<HeadDim>(mine, epilogue.norm_weight + target.norm_row * HeadDim, epilogue.norm_epsilon);
    }
    if ((target.head_steps & 2) != 0) {
      rotate_head<HeadDim>(mine, epilogue, position);
    }
  }
}

}  // namespace xstage::kernels
