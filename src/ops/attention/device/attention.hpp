#pragma once
// The compiled attention kernels and their launch.

#include <cuda_runtime_api.h>

#include "ops/attention/device/parameters.hpp"
#include "xstage/attention.hpp"

namespace xstage::kernels {

struct AttentionLaunchShape {
  int head_dim;
  attention::Element element;
  int blocks;         // of each rank
  bool instrumented;  // spans and delays compiled in
};

/// Loads the kernel of that shape on the current device. A first launch would load it while another rank's kernel may
/// already wait for this one, and loading may wait for the device.
void load_attention(const AttentionLaunchShape& shape);

/// Enqueues the kernel on the current device. Throws DeviceError.
void launch_attention(const AttentionLaunch& launch, const AttentionLaunchShape& shape, cudaStream_t stream);

/// Launches all virtual ranks of the current device as one cooperative kernel; `launches` lie in device memory.
void launch_virtual_attention(const AttentionLaunch* launches, int ranks, const AttentionLaunchShape& shape,
                              cudaStream_t stream);

}  // namespace xstage::kernels
