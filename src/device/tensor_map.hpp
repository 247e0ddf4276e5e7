#pragma once
// Tensor maps of row-major bf16 matrices for the GPU's copy engine (TMA).

#include <cuda.h>

#include <cstdint>

namespace xstage::kernels {

/// A matrix [rows, columns] with contiguous rows, read or written in boxes of box_rows x 64 columns with the 128-byte
/// swizzle. Reads beyond it give zeros, stores beyond it are clipped. `address` on 16 bytes, columns a multiple of 8.
/// An empty matrix gives a map of one row that nothing may use. `pitch` is the distance between rows in elements, 0:
/// columns.
[[nodiscard]] CUtensorMap matrix_map(const void* address, std::int64_t rows, std::int64_t columns, int box_rows,
                                     std::int64_t pitch = 0);

/// The same for loads of `box_blocks` blocks of 64 columns at once: coordinates are 0, the row, the block. In shared
/// memory one block's box_rows x 64 follow those of the one before. Columns are a multiple of 64: beyond the last block
/// lies the next row.
[[nodiscard]] CUtensorMap blocked_matrix_map(const void* address, std::int64_t rows, std::int64_t columns, int box_rows,
                                             int box_blocks);

/// The same as matrix_map for fp32, in boxes of box_rows x 32 columns.
[[nodiscard]] CUtensorMap wide_matrix_map(const void* address, std::int64_t rows, std::int64_t columns, int box_rows,
                                          std::int64_t pitch = 0);

}  // namespace xstage::kernels
