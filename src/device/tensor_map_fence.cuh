#pragma once
// Tensor maps in device memory. A multiprocessor keeps maps that it has used; where an earlier handle's map had the
// same address, that one would be used instead. Maps in a kernel's parameters need nothing.

#include <cuda.h>

namespace xstage::kernels {

/// Before a CTA's first use of a map in device memory, by the thread that uses it or before a barrier with it. The host
/// has written it before the launch.
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
