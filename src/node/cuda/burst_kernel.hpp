#pragma once
// Host side of the CUDA node's kernels.

#include <cuda_runtime_api.h>

#include <cstdint>

#include "node/cuda/burst_parameters.hpp"
#include "xstage/node.hpp"

namespace xstage::cuda {

/// Launches one CTA of `threads` per producer, cooperatively (all resident, or an error) and one per SM.
cudaError_t launch_bursts(StorePath path, const BurstParameters& parameters, int threads, int shared_bytes,
                          cudaStream_t stream);

/// Lets the path's kernel use `shared_bytes` of dynamic shared memory on the current device.
cudaError_t allow_shared_memory(StorePath path, int shared_bytes);

/// Dynamic shared memory that the launch needs for its log and, on the bulk path, its source.
std::int64_t required_shared_bytes(StorePath path, int bursts);

struct VerifyParameters {
  const char* destination;  // [slots][producers][stride_bytes]
  std::int64_t bytes;
  std::int64_t stride_bytes;
  int slots;
  int producers;
  int destination_index;
  int destination_count;
  std::uint32_t seed;
  bool payload_has_burst;       // false on the bulk path
  const ProducerClock* clocks;  // [producers], on the verifying device: how many bursts each producer made
};

/// Counts wrong words of the destination and adds their number to `*mismatches`. A word must be the payload of the last
/// burst to its slot; in slots that were never written and in the padding it must be poison.
cudaError_t launch_verify(const VerifyParameters& parameters, unsigned long long* mismatches, cudaStream_t stream);

/// Keeps every SM busy for about `milliseconds`, so that clocks have risen before something is timed.
cudaError_t launch_warm_up(double milliseconds, int blocks, cudaStream_t stream);

}  // namespace xstage::cuda
