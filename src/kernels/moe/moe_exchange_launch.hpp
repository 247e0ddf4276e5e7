#pragma once
// What the launches of dispatch and combine have in common. For the files that compile them.

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "kernels/moe/moe_exchange_parameters.hpp"
#include "node/cuda/device_memory.hpp"

namespace xstage::kernels::moe_exchange {

/// What a Hopper multiprocessor gives one CTA. The attribute belongs to the kernel: the same for all handles.
inline constexpr std::int32_t most_shared_bytes = 227 * 1024;

/// The largest pieces up to that size that cut a row evenly.
[[nodiscard]] inline std::int32_t even_piece(std::int32_t row_bytes, std::int32_t most_bytes) {
  constexpr std::int32_t unit = 16;
  const std::int32_t most = std::max(unit, most_bytes / unit * unit);
  const std::int32_t pieces = (row_bytes + most - 1) / most;
  return ((row_bytes + pieces - 1) / pieces + unit - 1) / unit * unit;
}

/// Fits one of a launch's rings into shared memory beside whatever else the launch has there: a shorter ring first,
/// then shorter pieces. `shared_bytes()`: of the launch as it stands.
template <class SharedBytes>
void fit_ring(MoeRing& ring, std::int32_t row_bytes, std::int32_t piece, const SharedBytes& shared_bytes) {
  for (;;) {
    ring.stage_bytes = even_piece(row_bytes, piece);
    if (shared_bytes() <= most_shared_bytes) {
      return;
    }
    if (ring.stages > ring.under_way + 1) {
      --ring.stages;
    } else {
      piece = ring.stage_bytes - 16;
    }
  }
}

[[nodiscard]] inline int or_rule(int value, int rule) { return value == 0 ? rule : value; }

/// All of L1 as shared memory, as the kernels before and after have it: a multiprocessor that divides it anew must be
/// idle first.
template <class Function>
void allow_shared_memory(Function kernel, const std::string& what) {
  cuda::check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most_shared_bytes),
              "asking for the shared memory of " + what);
  cuda::check(
      cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared),
      "asking for the shared memory of " + what);
}

struct LaunchShape {
  int blocks = 0;
  int threads = 0;
  int shared_bytes = 0;
  bool cooperative = false;
};

template <class Function, class... Arguments>
void enqueue(Function kernel, const LaunchShape& shape, cudaStream_t stream, const std::string& what,
             const Arguments&... arguments) {
  cudaLaunchAttribute attribute{};
  // Virtual ranks must be resident together; a rank's own kernel may start while the one before it in the stream ends.
  if (shape.cooperative) {
    attribute.id = cudaLaunchAttributeCooperative;
    attribute.val.cooperative = 1;
  } else {
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
  }
  cudaLaunchConfig_t configuration = {};
  configuration.gridDim = dim3(static_cast<unsigned>(shape.blocks));
  configuration.blockDim = dim3(static_cast<unsigned>(shape.threads));
  configuration.dynamicSmemBytes = static_cast<std::size_t>(shape.shared_bytes);
  configuration.stream = stream;
  configuration.attrs = &attribute;
  configuration.numAttrs = 1;
  cuda::check(cudaLaunchKernelEx(&configuration, kernel, arguments...), "launching " + what);
}

}  // namespace xstage::kernels::moe_exchange
