#include "ops/all_to_all/device/chunk_map.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "device/encode_tiled.hpp"
#include "xstage/error.hpp"

namespace xstage::kernels {

namespace {

constexpr std::int64_t element_bytes = 2;

}  // namespace

CUtensorMap chunk_map(const ChunkTarget& target, int box_rows, int box_heads) {
  const auto unsigned_of = [](std::int64_t value) { return static_cast<cuuint64_t>(value); };
  const std::int64_t rows = std::max<std::int64_t>(target.rows, 1);
  const std::int64_t head_bytes = target.head_dim * element_bytes;
  const std::int64_t row_bytes = target.all_heads * head_bytes;
  const cuuint64_t extents[4] = {unsigned_of(target.head_dim), unsigned_of(target.heads), unsigned_of(rows),
                                 unsigned_of(target.sequences)};
  const cuuint64_t strides[3] = {unsigned_of(head_bytes), unsigned_of(row_bytes), unsigned_of(rows * row_bytes)};
  const cuuint32_t box[4] = {static_cast<cuuint32_t>(target.head_dim), static_cast<cuuint32_t>(box_heads),
                             static_cast<cuuint32_t>(box_rows), 1};
  const cuuint32_t steps[4] = {1, 1, 1, 1};
  CUtensorMap map{};
  const CUresult result = encode_tiled()(&map, CU_TENSOR_MAP_DATA_TYPE_UINT16, 4, target.address, extents, strides, box,
                                         steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                                         CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) {
    throw DeviceError(fmt::format("the driver refused a tensor map of [{}, {}, {} of {}, {}] at {} (error {})",
                                  target.sequences, target.rows, target.heads, target.all_heads, target.head_dim,
                                  target.address, static_cast<int>(result)));
  }
  return map;
}

}  // namespace xstage::kernels
