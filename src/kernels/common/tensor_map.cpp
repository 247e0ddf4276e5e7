#include "kernels/common/tensor_map.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>

#include "node/cuda/device_memory.hpp"
#include "xstage/error.hpp"

namespace xstage::kernels {

namespace {

using EncodeTiled = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*,
                                 const cuuint64_t*, const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave,
                                 CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

/// The driver's function, found through the runtime: libcuda is not linked, so that the tool starts without a driver.
EncodeTiled encode_tiled() {
  static const EncodeTiled function = [] {
    void* address = nullptr;
    cudaDriverEntryPointQueryResult found{};
    cuda::check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &address, 12000, cudaEnableDefault, &found),
                "looking up cuTensorMapEncodeTiled");
    if (found != cudaDriverEntryPointSuccess) {
      throw DeviceError("the driver has no cuTensorMapEncodeTiled: it must be of CUDA 12 or later");
    }
    return reinterpret_cast<EncodeTiled>(address);
  }();
  return function;
}

/// Rows of boxes are 128 bytes, one swizzle row, whatever the element.
struct Element {
  CUtensorMapDataType type;
  int bytes;
};

CUtensorMap encode(const Element& element, const void* address, std::int64_t rows, std::int64_t columns, int box_rows,
                   std::int64_t pitch) {
  CUtensorMap map{};
  const cuuint64_t extents[2] = {static_cast<cuuint64_t>(std::max<std::int64_t>(columns, 8)),
                                 static_cast<cuuint64_t>(std::max<std::int64_t>(rows, 1))};
  const std::int64_t row_columns = std::max<std::int64_t>(pitch > 0 ? pitch : columns, 8);
  const cuuint64_t strides[1] = {static_cast<cuuint64_t>(row_columns * element.bytes)};
  const cuuint32_t box[2] = {static_cast<cuuint32_t>(128 / element.bytes), static_cast<cuuint32_t>(box_rows)};
  const cuuint32_t steps[2] = {1, 1};
  const CUresult result = encode_tiled()(&map, element.type, 2, const_cast<void*>(address), extents, strides, box,
                                         steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                         CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) {
    throw DeviceError(fmt::format("the driver refused a tensor map of {} x {} elements of {} bytes at {} (error {})",
                                  rows, columns, element.bytes, address, static_cast<int>(result)));
  }
  return map;
}

}  // namespace

CUtensorMap matrix_map(const void* address, std::int64_t rows, std::int64_t columns, int box_rows, std::int64_t pitch) {
  return encode({CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2}, address, rows, columns, box_rows, pitch);
}

CUtensorMap wide_matrix_map(const void* address, std::int64_t rows, std::int64_t columns, int box_rows,
                            std::int64_t pitch) {
  return encode({CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4}, address, rows, columns, box_rows, pitch);
}

}  // namespace xstage::kernels
