// The instantiations of the grouped GEMM and their launch.

#include "kernels/moe/grouped.hpp"

#include "kernels/moe/grouped_kernel.cuh"
#include "node/cuda/device_memory.hpp"

namespace xstage::kernels {

namespace {

using Kernel = void (*)(GroupedLaunch);

Kernel choose(const GroupedGemm& gemm) {
  if (gemm.tile_columns == 256) {
    return gemm.gated ? grouped_kernel<256, true> : grouped_kernel<256, false>;
  }
  return gemm.gated ? grouped_kernel<128, true> : grouped_kernel<128, false>;
}

}  // namespace

/// The same for all launches of a kernel: the attribute belongs to the kernel, and what one handle lowered another
/// would miss.
void load_grouped(const GroupedGemm& gemm) {
  cuda::check(cudaFuncSetAttribute(choose(gemm), cudaFuncAttributeMaxDynamicSharedMemorySize, shared_memory_bytes),
              "asking for the grouped GEMM's shared memory");
}

void launch_grouped(const GroupedGemm& gemm, cudaStream_t stream) {
  load_grouped(gemm);
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeClusterDimension;
  attributes[0].val.clusterDim.x = static_cast<unsigned>(gemm.launch.tiling.cluster);
  attributes[0].val.clusterDim.y = 1;
  attributes[0].val.clusterDim.z = 1;
  attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[1].val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t configuration = {};
  configuration.gridDim = dim3(static_cast<unsigned>(gemm.issuers));
  configuration.blockDim = dim3(gemm_threads);
  configuration.dynamicSmemBytes = static_cast<std::size_t>(gemm.shared_bytes);
  configuration.stream = stream;
  configuration.attrs = attributes;
  configuration.numAttrs = 2;
  cuda::check(cudaLaunchKernelEx(&configuration, choose(gemm), gemm.launch), "launching the grouped GEMM");
}

}  // namespace xstage::kernels
