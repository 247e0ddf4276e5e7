#pragma once
// The compiled GEMM kernels and their launch.

#include <cuda_runtime_api.h>

#include "kernels/gemm/gemm_parameters.hpp"

namespace xstage::kernels {

struct GemmLaunchShape {
  int tile_columns;
  int blocks;  // of all virtual ranks
  int cluster_size;
  int shared_bytes;
  bool cooperative;   // virtual ranks: all CTAs must be resident together
  bool instrumented;  // spans and delays compiled in
};

/// Enqueues on the current device. Throws DeviceError.
void launch_gemm(const GemmLaunch& launch, const GemmLaunchShape& shape, cudaStream_t stream);

}  // namespace xstage::kernels
