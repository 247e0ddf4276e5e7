#pragma once
// Generates random numbers on the GPU.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace xstage::bench {

/// Enqueues on the current device's default stream: `elements` bf16 of a normal distribution with mean 0. `destination`
/// is aligned to 4 bytes.
[[nodiscard]] cudaError_t launch_random_normal(void* destination, std::size_t elements, float deviation,
                                               std::uint64_t stream_number);

}  // namespace xstage::bench
