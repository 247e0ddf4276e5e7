// Reads back what the bursts stored at the destination. Also contains the warm-up before every measurement.

#include "node/cuda/burst_kernel.hpp"
#include "node/cuda/payload.hpp"
#include "node/cuda/stores.cuh"
#include "node/cuda/waits.cuh"

namespace xstage::cuda {
namespace {

/// Index of the last burst of `producer` that went to (slot, destination), or -1 if none did. Bursts take the slots in
/// turn (burst mod slots) and the destinations in turn (burst + producer mod destination_count).
__device__ std::int64_t last_burst_of(int slot, std::uint32_t producer, const VerifyParameters& parameters) {
  const std::int64_t made = parameters.clocks[producer].bursts;
  if (slot >= made) {
    return -1;
  }
  std::int64_t burst = slot + (made - 1 - slot) / parameters.slots * parameters.slots;
  while (burst >= 0 && (burst + producer) % parameters.destination_count != parameters.destination_index) {
    burst -= parameters.slots;
  }
  return burst;
}

/// A block verifies one (slot, producer) cell at a time.
__global__ void verify_kernel(const VerifyParameters parameters, unsigned long long* mismatches) {
  unsigned long long wrong = 0;
  const std::int64_t cells = static_cast<std::int64_t>(parameters.slots) * parameters.producers;
  for (std::int64_t cell = blockIdx.x; cell < cells; cell += gridDim.x) {
    const auto producer = static_cast<std::uint32_t>(cell % parameters.producers);
    const std::int64_t burst = last_burst_of(static_cast<int>(cell / parameters.producers), producer, parameters);
    const auto payload_burst = parameters.payload_has_burst && burst >= 0 ? static_cast<std::uint32_t>(burst) : 0U;
    const std::uint32_t base = payload_base(parameters.seed, producer, payload_burst);
    const auto* words = reinterpret_cast<const std::uint32_t*>(parameters.destination + cell * parameters.stride_bytes);
    for (std::int64_t word = threadIdx.x; word < parameters.stride_bytes / 4; word += blockDim.x) {
      const bool written = burst >= 0 && word < parameters.bytes / 4;
      const auto source_word =
          static_cast<std::uint32_t>(parameters.payload_has_burst ? word : word % (bulk_source_bytes / 4));
      const std::uint32_t expected = written ? payload_word(base, source_word) : poison_word;
      wrong += words[word] != expected ? 1 : 0;
    }
  }
  if (wrong != 0) {
    atomicAdd(mismatches, wrong);
  }
}

__global__ void warm_up_kernel(std::uint64_t nanoseconds) {
  const std::uint64_t until = global_nanosecond() + nanoseconds;
  while (global_nanosecond() < until) {
  }
}

}  // namespace

cudaError_t launch_verify(const VerifyParameters& parameters, unsigned long long* mismatches, cudaStream_t stream) {
  constexpr unsigned blocks = 1024;
  constexpr unsigned threads = 256;
  verify_kernel<<<blocks, threads, 0, stream>>>(parameters, mismatches);
  return cudaGetLastError();
}

cudaError_t launch_warm_up(double milliseconds, int blocks, cudaStream_t stream) {
  warm_up_kernel<<<static_cast<unsigned>(blocks), 128, 0, stream>>>(static_cast<std::uint64_t>(milliseconds * 1e6));
  return cudaGetLastError();
}

}  // namespace xstage::cuda
