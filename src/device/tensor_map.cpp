#include "device/tensor_map.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "device/encode_tiled.hpp"
#include "xstage/error.hpp"

namespace xstage::kernels {

namespace {

/// Bytes in one row of a box, for every element type.
constexpr int swizzle_row_bytes = 128;

struct Element {
  CUtensorMapDataType type;
  int bytes;
};

constexpr Element bf16{CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2};

/// Sizes of a tensor and of the box that one load or store takes; strides of all dimensions but the first, in bytes.
struct Extents {
  std::array<cuuint64_t, 3> sizes;
  std::array<cuuint64_t, 2> strides;
  std::array<cuuint32_t, 3> box;
};

CUtensorMap encode(const Element& element, const void* address, cuuint32_t dimensions, const Extents& extents) {
  CUtensorMap map{};
  const cuuint32_t steps[3] = {1, 1, 1};
  const CUresult result =
      encode_tiled()(&map, element.type, dimensions, const_cast<void*>(address), extents.sizes.data(),
                     extents.strides.data(), extents.box.data(), steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                     CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) {
    throw DeviceError(fmt::format("the driver refused a tensor map of {} x {} elements of {} bytes at {} (error {})",
                                  extents.sizes[1], extents.sizes[0], element.bytes, address,
                                  static_cast<int>(result)));
  }
  return map;
}

CUtensorMap encode_matrix(const Element& element, const void* address, std::int64_t rows, std::int64_t columns,
                          int box_rows, std::int64_t pitch) {
  const std::int64_t row_columns = std::max<std::int64_t>(pitch > 0 ? pitch : columns, 8);
  const Extents extents{
      {static_cast<cuuint64_t>(std::max<std::int64_t>(columns, 8)),
       static_cast<cuuint64_t>(std::max<std::int64_t>(rows, 1)), 1},
      {static_cast<cuuint64_t>(row_columns * element.bytes), 0},
      {static_cast<cuuint32_t>(swizzle_row_bytes / element.bytes), static_cast<cuuint32_t>(box_rows), 1}};
  return encode(element, address, 2, extents);
}

}  // namespace

CUtensorMap matrix_map(const void* address, std::int64_t rows, std::int64_t columns, int box_rows, std::int64_t pitch) {
  return encode_matrix(bf16, address, rows, columns, box_rows, pitch);
}

CUtensorMap blocked_matrix_map(const void* address, std::int64_t rows, std::int64_t columns, int box_rows,
                               int box_blocks) {
  const cuuint64_t block_columns = swizzle_row_bytes / bf16.bytes;
  const Extents extents{
      {block_columns, static_cast<cuuint64_t>(std::max<std::int64_t>(rows, 1)),
       static_cast<cuuint64_t>(columns) / block_columns},
      {static_cast<cuuint64_t>(columns * bf16.bytes), swizzle_row_bytes},
      {static_cast<cuuint32_t>(block_columns), static_cast<cuuint32_t>(box_rows), static_cast<cuuint32_t>(box_blocks)}};
  return encode(bf16, address, 3, extents);
}

CUtensorMap wide_matrix_map(const void* address, std::int64_t rows, std::int64_t columns, int box_rows,
                            std::int64_t pitch) {
  return encode_matrix({CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4}, address, rows, columns, box_rows, pitch);
}

}  // namespace xstage::kernels
