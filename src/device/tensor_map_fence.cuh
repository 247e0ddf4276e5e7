#pragma once
// Fence for tensor maps in device memory. A multiprocessor caches maps that it has used: if the map of an earlier
// handle had the same address, the stale map would be used. Maps in a kernel's parameters need no fence.

#include <cuda.h>

namespace xstage::kernels {

/// Called before a CTA's first use of a map in device memory, by the thread that uses it or before a barrier with that
/// thread. The host has written the map before the launch.
__device__ inline void fence_tensor_map(const CUtensorMap* map) {
  asm volatile("fence.proxy.tensormap::generic.acquire.sys [%0], 128;" ::"l"(map) : "memory");
}

__device__ inline void fence_tensor_maps(const CUtensorMap* maps, int count) {
#pragma unroll 1
  for (int map = 0; map < count; ++map) {
    fence_tensor_map(maps + map);
  }
}

}  // namespace xstage::kernels
