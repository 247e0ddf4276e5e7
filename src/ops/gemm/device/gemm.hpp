#pragma once
// The compiled GEMM kernels and their launch.

#include <cuda_runtime_api.h>

#include "ops/gemm/device/parameters.hpp"

namespace xstage::kernels {

struct GemmLaunchShape {
  int tile_columns;
  int blocks;  // of each rank
  int cluster_size;
  int shared_bytes;
  bool transforms;    // bias, activation, gate or steps on heads are asked for
  bool instrumented;  // spans and delays compiled in
};

/// Loads the kernel of that shape, and the gate, on the current device. A first launch would load them while another
/// rank's kernel may already wait for this one, and loading may wait for the device.
void load_gemm(const GemmLaunchShape& shape);

/// Enqueues the kernel on the current device. Throws DeviceError.
void launch_gemm(const GemmLaunch& launch, const GemmLaunchShape& shape, cudaStream_t stream);

/// Launches all virtual ranks of the current device as one cooperative kernel; `launches` lie in device memory.
void launch_virtual_gemm(const GemmLaunch* launches, int ranks, const GemmLaunchShape& shape, cudaStream_t stream);

}  // namespace xstage::kernels
