#pragma once
// Adds up some rows in fp32, from 0 on, and rounds the sum to bf16 once.

#include <cuda_bf16.h>

#include "ops/moe/device/exchange_shared.cuh"

namespace xstage::kernels {

/// The part of a sum that one of the warps computes which share it.
class RowAdder {
 public:
  __device__ RowAdder(std::int32_t top_k, std::int32_t warps, std::int32_t warp)
      : top_k_(top_k), first_(warp * 32 * step), stride_(warps * 32 * step) {}

  /// Adds bytes [begin, end) of the rows whose addresses the lanes hold, in the order of the lanes, and writes them to
  /// `sum`. Null: the lane has no row.
  __device__ void add(const char* row, const RowBytes& bytes, char* sum) const {
    // All lanes take part in every turn, since they pass each other the addresses of rows.
#pragma unroll 1
    for (std::int32_t first = bytes.begin + first_; first < bytes.end; first += columns * stride_) {
      std::int32_t offsets[columns];
#pragma unroll
      for (std::int32_t column = 0; column < columns; ++column) {
        offsets[column] = first + column * stride_ + lane_index() * step;
      }
      float sums[columns][8] = {};
#pragma unroll 1
      for (std::int32_t choice = 0; choice < top_k_; choice += at_once) {
        add_rows(sums, row, choice, offsets, bytes.end);
      }
#pragma unroll
      for (std::int32_t column = 0; column < columns; ++column) {
        if (offsets[column] < bytes.end) {
          *reinterpret_cast<uint4*>(sum + offsets[column]) = rounded(sums[column]);
        }
      }
    }
  }

 private:
  static constexpr std::int32_t at_once = 8;  // rows whose loads are in flight together
  static constexpr std::int32_t columns = 2;  // parts of each of these rows
  static constexpr std::int32_t step = 16;    // bytes of a lane

  __device__ void add_rows(float (&sums)[columns][8], const char* row, std::int32_t choice,
                           const std::int32_t (&offsets)[columns], std::int32_t end) const {
    uint4 values[at_once][columns];
#pragma unroll
    for (std::int32_t index = 0; index < at_once; ++index) {
      const char* from = from_lane(row, choice + index);
#pragma unroll
      for (std::int32_t column = 0; column < columns; ++column) {
        values[index][column] = {0U, 0U, 0U, 0U};  // adding +0 changes no sum that began with it
        if (from != nullptr && offsets[column] < end) {
          values[index][column] = __ldcg(reinterpret_cast<const uint4*>(from + offsets[column]));
        }
      }
    }
#pragma unroll
    for (std::int32_t index = 0; index < at_once; ++index) {
#pragma unroll
      for (std::int32_t column = 0; column < columns; ++column) {
        add(sums[column], values[index][column]);
      }
    }
  }

  __device__ static void add(float (&sum)[8], const uint4& values) {
    const std::uint32_t words[4] = {values.x, values.y, values.z, values.w};
#pragma unroll
    for (std::int32_t index = 0; index < 4; ++index) {
      sum[2 * index] += __uint_as_float(words[index] << 16U);
      sum[2 * index + 1] += __uint_as_float(words[index] & 0xFFFF0000U);
    }
  }

  [[nodiscard]] __device__ static uint4 rounded(const float (&sum)[8]) {
    std::uint32_t words[4];
#pragma unroll
    for (std::int32_t index = 0; index < 4; ++index) {
      const __nv_bfloat162 pair = __floats2bfloat162_rn(sum[2 * index], sum[2 * index + 1]);
      words[index] = reinterpret_cast<const std::uint32_t&>(pair);
    }
    return {words[0], words[1], words[2], words[3]};
  }

  const std::int32_t top_k_;
  const std::int32_t first_;
  const std::int32_t stride_;
};

}  // namespace xstage::kernels
