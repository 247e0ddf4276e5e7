#include "ops/attention/device/head_map.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "device/encode_tiled.hpp"
#include "xstage/error.hpp"

namespace xstage::kernels {

namespace {

constexpr std::int64_t element_bytes = 2;
constexpr int columns = 64;  // 128 bytes, one swizzle row

}  // namespace

CUtensorMap head_map(const HeadTensor& tensor, int box_rows, int box_halves) {
  const auto unsigned_of = [](std::int64_t value) { return static_cast<cuuint64_t>(value); };
  const std::int64_t head_bytes = tensor.head_dim * element_bytes;
  const std::int64_t rows = std::max<std::int64_t>(tensor.rows, 1);
  const std::int64_t row_bytes = tensor.heads * head_bytes;
  const cuuint64_t extents[5] = {columns, unsigned_of(rows), unsigned_of(tensor.head_dim / columns),
                                 unsigned_of(tensor.heads), unsigned_of(tensor.sequences)};
  const cuuint64_t strides[4] = {unsigned_of(row_bytes), columns * element_bytes, unsigned_of(head_bytes),
                                 unsigned_of(rows * row_bytes)};
  const cuuint32_t box[5] = {columns, static_cast<cuuint32_t>(box_rows), static_cast<cuuint32_t>(box_halves), 1, 1};
  const cuuint32_t steps[5] = {1, 1, 1, 1, 1};
  const CUtensorMapDataType type =
      tensor.element == attention::Element::bf16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  CUtensorMap map{};
  const CUresult result = encode_tiled()(&map, type, 5, const_cast<void*>(tensor.address), extents, strides, box, steps,
                                         CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                         CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) {
    throw DeviceError(fmt::format("the driver refused a tensor map of [{}, {}, {}, {}] at {} (error {})",
                                  tensor.sequences, tensor.rows, tensor.heads, tensor.head_dim, tensor.address,
                                  static_cast<int>(result)));
  }
  return map;
}

}  // namespace xstage::kernels
