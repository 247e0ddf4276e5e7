#pragma once
// The compiled all-to-all kernels and their launch.

#include <cuda_runtime_api.h>

#include "ops/all_to_all/device/parameters.hpp"

namespace xstage::kernels {

/// Loads the kernels on the current device. A first launch would load them while another rank's kernel may already wait
/// for this one, and loading may wait for the device.
void load_all_to_all();

/// Enqueues the kernel on the current device, with the CTAs of its schedule. Throws DeviceError.
void launch_all_to_all(const AllToAllLaunch& launch, cudaStream_t stream);

/// Launches all virtual ranks of the current device as one cooperative kernel. `launches` lie in device memory, `first`
/// is the host's copy of the first of them, and all have the same number of CTAs and stages.
void launch_virtual_all_to_all(const AllToAllLaunch* launches, const AllToAllLaunch& first, int ranks,
                               cudaStream_t stream);

}  // namespace xstage::kernels
