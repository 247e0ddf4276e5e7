#pragma once
// The driver's function that makes tensor maps for the GPU's copy engine (TMA).

#include <cuda.h>

namespace xstage::kernels {

using EncodeTiled = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*,
                                 const cuuint64_t*, const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave,
                                 CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

/// Finds the function through the CUDA runtime: libcuda is not linked, so that the tool starts on a machine without a
/// driver. Throws DeviceError.
[[nodiscard]] EncodeTiled encode_tiled();

}  // namespace xstage::kernels
