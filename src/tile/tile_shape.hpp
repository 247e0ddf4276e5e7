#pragma once
// Numbers that all kernels that multiply tiles share: the shape of a tile, of the chunks in which its result leaves
// shared memory, and the steps between the sum and its store. Includes no CUDA.

#include <cstdint>

namespace xstage::kernels {

inline constexpr int gemm_threads = 384;    // one warpgroup of helpers, two that multiply
inline constexpr int gemm_tile_rows = 128;  // two multiplying warpgroups, 64 rows each
inline constexpr int gemm_tile_depth = 64;  // k-block: 64 bf16 are one 128-byte swizzle row
inline constexpr int chunk_columns = 64;    // a staged chunk: 64 rows of 128 bytes, swizzled
inline constexpr int chunk_bytes = 64 * chunk_columns * 2;
inline constexpr int wide_chunk_columns = 32;           // the same bytes of fp32 partial sums
inline constexpr int shared_memory_bytes = 227 * 1024;  // of one CTA, at most
inline constexpr int max_staging = 4;

enum class GemmActivation : std::int32_t { none, gelu, gelu_tanh, silu };

}  // namespace xstage::kernels
