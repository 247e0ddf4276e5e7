#pragma once
// Tensor maps through which an all-to-all stores chunks: some rows of some heads, packed in shared memory.

#include <cuda.h>

#include <cstdint>

namespace xstage::kernels {

/// The heads of one rank in the result of another.
struct ChunkTarget {
  void* address;  // first row, first of these heads
  std::int64_t sequences;
  std::int64_t rows;
  std::int64_t heads;
  std::int64_t all_heads;  // of the result
  int head_dim;            // of 2-byte elements
};

/// Map that shows the target as [sequences, rows, heads, head_dim], in boxes of some rows of some heads. Stores beyond
/// the rows or the heads are clipped. For a target without rows the map is valid and has one row, which must not be
/// accessed.
[[nodiscard]] CUtensorMap chunk_map(const ChunkTarget& target, int box_rows, int box_heads);

}  // namespace xstage::kernels
