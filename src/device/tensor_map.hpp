#pragma once
// Tensor maps of row-major bf16 matrices for the GPU's copy engine (TMA).

#include <cuda.h>

#include <cstdint>

namespace xstage::kernels {

/// Map of a matrix [rows, columns] with contiguous rows, which is read or written in boxes of box_rows x 64 columns
/// with the 128-byte swizzle. Reads beyond the matrix give zeros, and stores beyond it are clipped. `address` is
/// aligned to 16 bytes, and columns is a multiple of 8. `pitch` is the distance between rows in elements (0: columns).
/// For an empty matrix the map is valid and has one row, which must not be accessed.
[[nodiscard]] CUtensorMap matrix_map(const void* address, std::int64_t rows, std::int64_t columns, int box_rows,
                                     std::int64_t pitch = 0);

/// The same for loads of `box_blocks` blocks of 64 columns at once: coordinates are 0, the row and the block. In shared
/// memory the box_rows x 64 elements of a block follow those of the block before. columns is a multiple of 64, since
/// the next row lies behind the last block.
[[nodiscard]] CUtensorMap blocked_matrix_map(const void* address, std::int64_t rows, std::int64_t columns, int box_rows,
                                             int box_blocks);

/// The same as matrix_map for fp32, in boxes of box_rows x 32 columns.
[[nodiscard]] CUtensorMap wide_matrix_map(const void* address, std::int64_t rows, std::int64_t columns, int box_rows,
                                          std::int64_t pitch = 0);

}  // namespace xstage::kernels
