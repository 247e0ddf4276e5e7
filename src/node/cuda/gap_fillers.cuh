#pragma once
// Work of a producer between two bursts. Each filler runs for at least the requested cycles. The caller measures how
// long the gap really took, since a filler such as streaming reads stretches it.

#include "node/cuda/burst_parameters.hpp"
#include "node/cuda/waits.cuh"
#include "xstage/node.hpp"

namespace xstage::cuda {

/// One thread spins; the others wait at the caller's barrier.
__device__ inline void spin(std::uint64_t until_cycle) {
  if (threadIdx.x == 0) {
    while (cycle() < until_cycle) {
    }
  }
}

/// All threads stream 16-byte words from local memory, with four loads in flight for each thread, and every CTA reads
/// its own range.
__device__ inline std::uint32_t stream_memory(std::uint64_t until_cycle, const BurstParameters& parameters,
                                              std::uint64_t& position) {
  constexpr int loads_in_flight = 4;
  const std::uint64_t step = static_cast<std::uint64_t>(gridDim.x) * blockDim.x;
  std::uint32_t sum = 0;
  while (cycle() < until_cycle) {
    uint4 words[loads_in_flight];
#pragma unroll
    for (int load = 0; load < loads_in_flight; ++load) {
      words[load] = __ldcs(&parameters.filler_memory[position % parameters.filler_words]);
      position += step;
    }
#pragma unroll
    for (int load = 0; load < loads_in_flight; ++load) {
      sum ^= words[load].x ^ words[load].y ^ words[load].z ^ words[load].w;
    }
  }
  return sum;
}

/// All warps multiply: bf16 m16n8k16 on registers, without memory traffic. The instruction is plain mma, so that it
/// runs from sm_80 on.
__device__ inline std::uint32_t multiply(std::uint64_t until_cycle) {
  float accumulator[2][4] = {};
  const std::uint32_t a = 0x3F803F80U + threadIdx.x;
  const std::uint32_t b = 0x3F803F80U - threadIdx.x;
  while (cycle() < until_cycle) {
#pragma unroll
    for (int repeat = 0; repeat < 8; ++repeat) {
      float* c = accumulator[repeat % 2];
      asm volatile(
          "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %4, %4, %4}, {%5, %5}, "
          "{%0, %1, %2, %3};"
          : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
          : "r"(a), "r"(b));
    }
  }
  return __float_as_uint(accumulator[0][0] + accumulator[1][3]);
}

/// Runs the launch's filler until `until_cycle`; the result only keeps the work from being optimised away.
__device__ inline std::uint32_t fill_gap(std::uint64_t until_cycle, const BurstParameters& parameters,
                                         std::uint64_t& memory_position) {
  switch (static_cast<GapFiller>(parameters.filler)) {
    case GapFiller::memory_reads:
      return stream_memory(until_cycle, parameters, memory_position);
    case GapFiller::tensor_cores:
      return multiply(until_cycle);
    case GapFiller::spin:
      break;
  }
  spin(until_cycle);
  return 0;
}

}  // namespace xstage::cuda
