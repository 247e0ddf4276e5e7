// The instantiations of the GEMM kernel, few on purpose: all else is decided at run time (design rule 10).

#include <type_traits>

#include "kernels/gemm/copy_gather.hpp"
#include "kernels/gemm/gemm.hpp"
#include "kernels/gemm/gemm_kernel.cuh"
#include "node/cuda/device_memory.hpp"
#include "xstage/error.hpp"

namespace xstage::kernels {

namespace {

using Kernel = void (*)(GemmLaunch);
using VirtualKernel = void (*)(const GemmLaunch*, std::int32_t);

template <bool Transforms, class Probe>
Kernel choose(int tile_columns) {
  switch (tile_columns) {
    case 256:
      return gemm_kernel<256, Transforms, Probe>;
    case 128:
      return gemm_kernel<128, Transforms, Probe>;
    default:
      return gemm_kernel<64, Transforms, Probe>;
  }
}

Kernel choose(const GemmLaunchShape& shape) {
  if (shape.instrumented) {
    return choose<true, RecordingProbe>(shape.tile_columns);
  }
  return shape.transforms ? choose<true, NoProbe>(shape.tile_columns) : choose<false, NoProbe>(shape.tile_columns);
}

/// Virtual ranks are for tests: with everything compiled in.
template <class Probe>
VirtualKernel choose_virtual(int tile_columns) {
  switch (tile_columns) {
    case 256:
      if constexpr (std::is_same_v<Probe, RecordingProbe>) {
        throw InputError("instrumented virtual ranks have tiles of 64 or 128 columns: 256 leave no register for it");
      } else {
        return gemm_virtual_kernel<256, true, Probe>;
      }
    case 128:
      return gemm_virtual_kernel<128, true, Probe>;
    default:
      return gemm_virtual_kernel<64, true, Probe>;
  }
}

/// The same for all launches of a kernel: the attribute belongs to the kernel, and what one handle lowered another
/// would miss.
template <class Function>
void allow_shared_memory(Function kernel) {
  cuda::check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_memory_bytes),
              "asking for the GEMM kernel's shared memory");
}

template <class Function, class... Arguments>
void enqueue(Function kernel, int blocks, const GemmLaunchShape& shape, bool cooperative, cudaStream_t stream,
             Arguments... arguments) {
  allow_shared_memory(kernel);
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeClusterDimension;
  attributes[0].val.clusterDim.x = static_cast<unsigned>(shape.cluster_size);
  attributes[0].val.clusterDim.y = 1;
  attributes[0].val.clusterDim.z = 1;
  // Virtual ranks must be resident together; a rank's own kernel may start while the one before it in the stream ends.
  if (cooperative) {
    attributes[1].id = cudaLaunchAttributeCooperative;
    attributes[1].val.cooperative = 1;
  } else {
    attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[1].val.programmaticStreamSerializationAllowed = 1;
  }
  cudaLaunchConfig_t configuration = {};
  configuration.gridDim = dim3(static_cast<unsigned>(blocks));
  configuration.blockDim = dim3(gemm_threads);
  configuration.dynamicSmemBytes = static_cast<std::size_t>(shape.shared_bytes);
  configuration.stream = stream;
  configuration.attrs = attributes;
  configuration.numAttrs = 2;
  cuda::check(cudaLaunchKernelEx(&configuration, kernel, arguments...), "launching the GEMM kernel");
}

__global__ void gate_kernel(const __grid_constant__ GemmLaunch launch) {
  const std::uint32_t epoch = load_relaxed(own_signal(launch, SignalPad::epochs));
  const WaitContext waits = wait_context(launch);
  post_entries(launch, epoch);
  for_each_peer(launch, [&](std::int32_t peer) { await_peer_entry(launch, waits, peer, epoch, 0); });
}

}  // namespace

void launch_gate(const GemmLaunch& launch, cudaStream_t stream) {
  gate_kernel<<<1, 1, 0, stream>>>(launch);
  cuda::check(cudaGetLastError(), "launching the gate of an all-gather");
}

void load_gemm(const GemmLaunchShape& shape) {
  allow_shared_memory(choose(shape));
  cudaFuncAttributes gate{};
  cuda::check(cudaFuncGetAttributes(&gate, gate_kernel), "loading the gate of an all-gather");
}

void launch_gemm(const GemmLaunch& launch, const GemmLaunchShape& shape, cudaStream_t stream) {
  enqueue(choose(shape), shape.blocks, shape, false, stream, launch);
}

void launch_virtual_gemm(const GemmLaunch* launches, int ranks, const GemmLaunchShape& shape, cudaStream_t stream) {
  const VirtualKernel kernel = shape.instrumented ? choose_virtual<RecordingProbe>(shape.tile_columns)
                                                  : choose_virtual<NoProbe>(shape.tile_columns);
  enqueue(kernel, shape.blocks * ranks, shape, true, stream, launches, static_cast<std::int32_t>(ranks));
}

}  // namespace xstage::kernels
