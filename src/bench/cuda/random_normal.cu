#include <cuda_bf16.h>

#include <algorithm>

#include "bench/cuda/random_normal.hpp"
#include "bench/random_bits.hpp"

namespace xstage::bench {

namespace {

constexpr int threads = 256;
constexpr std::size_t most_blocks = 4096;

/// Box-Muller transform: two uniform numbers of 24 bits, the first above zero, make two normal ones.
__global__ void __launch_bounds__(threads)
    random_normal_kernel(__nv_bfloat16* destination, std::size_t elements, float deviation, std::uint64_t seed) {
  constexpr float step = 1.0F / 16777216.0F;
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * threads;
  for (std::size_t pair = static_cast<std::size_t>(blockIdx.x) * threads + threadIdx.x; 2 * pair < elements;
       pair += stride) {
    const std::uint64_t bits = random_bits(seed, pair);
    const float first = static_cast<float>((bits >> 40U) + 1) * step;
    const float second = static_cast<float>((bits >> 8U) & 0xFFFFFFU) * step;
    // The fast logarithm of a number just below 1 may be above 0.
    const float radius = deviation * sqrtf(fmaxf(-2.0F * __logf(first), 0.0F));
    const float angle = 6.283185307F * second;
    const float x = radius * __cosf(angle);
    const float y = radius * __sinf(angle);
    if (2 * pair + 1 < elements) {
      reinterpret_cast<__nv_bfloat162*>(destination)[pair] = __floats2bfloat162_rn(x, y);
    } else {
      destination[2 * pair] = __float2bfloat16(x);
    }
  }
}

}  // namespace

cudaError_t launch_random_normal(void* destination, std::size_t elements, float deviation,
                                 std::uint64_t stream_number) {
  const std::size_t pairs = (elements + 1) / 2;
  const std::size_t blocks = std::clamp((pairs + threads - 1) / threads, std::size_t{1}, most_blocks);
  random_normal_kernel<<<static_cast<unsigned int>(blocks), threads>>>(
      static_cast<__nv_bfloat16*>(destination), elements, deviation, random_bits(1, stream_number));
  return cudaGetLastError();
}

}  // namespace xstage::bench
