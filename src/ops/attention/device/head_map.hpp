#pragma once
// Tensor maps of [sequences, rows, heads, head_dim] tensors of 2-byte elements for the GPU's copy engine (TMA).

#include <cuda.h>

#include <cstdint>

#include "xstage/attention.hpp"

namespace xstage::kernels {

struct HeadTensor {
  const void* address;
  std::int64_t sequences;
  std::int64_t rows;
  std::int64_t heads;
  int head_dim;  // multiple of 64
  attention::Element element;
};

/// Seen as [sequences, heads, halves of head_dim, rows, 64], in boxes of some rows of one or more halves of one head,
/// with the 128-byte swizzle. Reads beyond the rows give zeros, stores beyond them, or before the first, are clipped. A
/// tensor without rows gives a map of one row that nothing may use.
[[nodiscard]] CUtensorMap head_map(const HeadTensor& tensor, int box_rows, int box_halves);

}  // namespace xstage::kernels
