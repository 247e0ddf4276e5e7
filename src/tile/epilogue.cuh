#pragma once
// Epilogue of one multiplying thread: from its accumulators to bf16 chunks in shared memory.
//
// A thread of a warpgroup holds, for each block of 8 columns, two neighbouring columns of two rows (r and r + 8):
//   accumulator[4 * block + 2 * i + j]  is  row  16 * warp + lane / 4 + 8 * i,  column  8 * block + 2 * (lane % 4) + j

#include <cuda_bf16.h>

#include <cstdint>

#include "tile/tile_shape.hpp"

namespace xstage::kernels {

inline constexpr std::size_t chunk_values = chunk_columns / 2;  // of one thread

/// Uses fast divisions: the exact ones are calls, and a call makes ptxas serialise WGMMA (C7510).
template <GemmActivation Activation>
__device__ inline float activate(float value) {
  if constexpr (Activation == GemmActivation::gelu) {
    return 0.5F * value * (1.0F + erff(value * 0.70710678F));
  } else if constexpr (Activation == GemmActivation::gelu_tanh) {
    const float inner = 0.79788456F * (value + 0.044715F * value * value * value);
    return __fdividef(value, 1.0F + __expf(-2.0F * inner));  // (1 + tanh(x)) / 2 is the sigmoid of 2 x; infinity stays
  } else if constexpr (Activation == GemmActivation::silu) {
    return __fdividef(value, 1.0F + __expf(-value));
  } else {
    return value;
  }
}

template <GemmActivation Activation, std::size_t Values>
__device__ inline void activate_all(float (&values)[Values]) {
#pragma unroll
  for (int value = 0; value < static_cast<int>(Values); ++value) {
    values[value] = activate<Activation>(values[value]);
  }
}

template <std::size_t Values>
__device__ inline void apply_activation(float (&values)[Values], GemmActivation activation) {
  switch (activation) {
    case GemmActivation::gelu:
      return activate_all<GemmActivation::gelu>(values);
    case GemmActivation::gelu_tanh:
      return activate_all<GemmActivation::gelu_tanh>(values);
    case GemmActivation::silu:
      return activate_all<GemmActivation::silu>(values);
    case GemmActivation::none:
      return;
  }
}

/// Adds the bias of the columns from `first_column` on. The four lanes of a quad read 16 contiguous bytes.
template <std::size_t Values>
__device__ inline void add_bias(float (&values)[Values], const void* bias, std::int32_t first_column,
                                std::int32_t columns) {
  const auto* words = static_cast<const __nv_bfloat16*>(bias);
  const std::int32_t mine = first_column + 2 * static_cast<std::int32_t>(threadIdx.x % 4U);
#pragma unroll
  for (int block = 0; block < static_cast<int>(Values) / 4; ++block) {
    const std::int32_t column = mine + 8 * block;
    if (column < columns) {  // columns are a multiple of 8, so both of the pair exist
      const float2 pair = __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(words + column));
      values[4 * block] += pair.x;
      values[4 * block + 1] += pair.y;
      values[4 * block + 2] += pair.x;
      values[4 * block + 3] += pair.y;
    }
  }
}

template <GemmActivation Activation, std::size_t Values>
__device__ inline void gate_all(float (&values)[Values]) {
#pragma unroll
  for (int block = 0; block < static_cast<int>(Values) / 8; ++block) {
#pragma unroll
    for (int value = 0; value < 4; ++value) {
      values[4 * block + value] = activate<Activation>(values[8 * block + value]) * values[8 * block + 4 + value];
    }
  }
}

/// Applies a gate. Columns alternate between 8 of the gate and 8 of the up projection, so that one thread holds both
/// factors of activation(gate) * up.
template <std::size_t Values>
__device__ inline void apply_gate(float (&values)[Values], GemmActivation activation) {
  switch (activation) {
    case GemmActivation::gelu:
      return gate_all<GemmActivation::gelu>(values);
    case GemmActivation::gelu_tanh:
      return gate_all<GemmActivation::gelu_tanh>(values);
    case GemmActivation::silu:
      return gate_all<GemmActivation::silu>(values);
    case GemmActivation::none:
      return gate_all<GemmActivation::none>(values);
  }
}

/// Shared-memory address of the 16-byte unit that this lane passes to stmatrix or ldmatrix for columns 16 * pair of a
/// chunk. Lanes 0-7 address rows 0-7 of the first 8 columns, lanes 8-15 rows 8-15, and lanes 16-31 the same rows of the
/// next 8 columns.
__device__ inline std::uint32_t matrix_address(std::uint32_t chunk, int pair) {
  const std::uint32_t lane = threadIdx.x % 32U;
  const std::uint32_t warp = threadIdx.x / 32U % 4U;
  const std::uint32_t row = 16U * warp + lane % 16U;
  const std::uint32_t unit = 2U * static_cast<std::uint32_t>(pair) + lane / 16U;
  return chunk + row * 128U + ((unit ^ (row % 8U)) << 4U);
}

/// Rounds 64 columns to bf16 and writes them into a chunk without bank conflicts.
__device__ inline void stage_chunk(const float* values, std::uint32_t chunk) {
#pragma unroll
  for (int pair = 0; pair < chunk_columns / 16; ++pair) {
    std::uint32_t words[4];
#pragma unroll
    for (int word = 0; word < 4; ++word) {
      const __nv_bfloat162 rounded =
          __floats2bfloat162_rn(values[8 * pair + 2 * word], values[8 * pair + 2 * word + 1]);
      words[word] = *reinterpret_cast<const std::uint32_t*>(&rounded);
    }
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(matrix_address(chunk, pair)),
                 "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3])
                 : "memory");
  }
}

template <std::size_t Values>
__device__ inline void round_to_bf16(float (&values)[Values]) {
#pragma unroll
  for (int value = 0; value < static_cast<int>(Values); ++value) {
    values[value] = __bfloat162float(__float2bfloat16_rn(values[value]));
  }
}

/// Adds a staged chunk of a peer's partial sums.
__device__ inline void add_chunk(float* values, std::uint32_t chunk) {
#pragma unroll
  for (int pair = 0; pair < chunk_columns / 16; ++pair) {
    std::uint32_t words[4];
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(matrix_address(chunk, pair))
                 : "memory");
#pragma unroll
    for (int word = 0; word < 4; ++word) {
      values[8 * pair + 2 * word] += __uint_as_float(words[word] << 16U);
      values[8 * pair + 2 * word + 1] += __uint_as_float(words[word] & 0xFFFF0000U);
    }
  }
}

/// Where this lane's two neighbouring fp32 of 8-column block `block` lie in a chunk of 32 fp32 columns, for its row r;
/// those of row r + 8 lie 1024 bytes further.
__device__ inline std::uint32_t wide_address(std::uint32_t chunk, int block) {
  const std::uint32_t lane = threadIdx.x % 32U;
  const std::uint32_t row = 16U * (threadIdx.x / 32U % 4U) + lane / 4U;
  const std::uint32_t unit = 2U * static_cast<std::uint32_t>(block) + lane % 4U / 2U;
  return chunk + row * 128U + ((unit ^ (row % 8U)) << 4U) + lane % 2U * 8U;
}

/// Writes 32 columns of fp32 sums into a chunk.
__device__ inline void stage_wide_chunk(const float* values, std::uint32_t chunk) {
#pragma unroll
  for (int block = 0; block < wide_chunk_columns / 8; ++block) {
    const std::uint32_t address = wide_address(chunk, block);
    asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(address), "f"(values[4 * block]), "f"(values[4 * block + 1])
                 : "memory");
    asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(address + 1024U), "f"(values[4 * block + 2]),
                 "f"(values[4 * block + 3])
                 : "memory");
  }
}

/// Adds a chunk of 32 columns of a peer's fp32 partial sums.
__device__ inline void add_wide_chunk(float* values, std::uint32_t chunk) {
#pragma unroll
  for (int block = 0; block < wide_chunk_columns / 8; ++block) {
    const std::uint32_t address = wide_address(chunk, block);
    float sums[4];
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(sums[0]), "=f"(sums[1]) : "r"(address) : "memory");
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(sums[2]), "=f"(sums[3]) : "r"(address + 1024U) : "memory");
#pragma unroll
    for (int value = 0; value < 4; ++value) {
      values[4 * block + value] += sums[value];
    }
  }
}

}  // namespace xstage::kernels
