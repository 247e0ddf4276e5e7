#pragma once
// Tensor maps (TMA) of [sequences, rows, heads, head_dim] tensors with 2-byte elements.

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

/// Map that shows the tensor as [sequences, heads, halves of head_dim, rows, 64], in boxes of some rows of one or more
/// halves of one head, with the 128-byte swizzle. Reads beyond the rows give zeros; stores beyond them, or before the
/// first, are clipped. For a tensor without rows the map is valid and has one row, which must not be accessed.
[[nodiscard]] CUtensorMap head_map(const HeadTensor& tensor, int box_rows, int box_halves);

}  // namespace xstage::kernels
