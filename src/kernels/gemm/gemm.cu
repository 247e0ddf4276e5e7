// The instantiations of the GEMM kernel, few on purpose: all else is decided at run time (design rule 10).

#include <string>

#include "kernels/gemm/gemm.hpp"
#include "kernels/gemm/gemm_kernel.cuh"
#include "node/cuda/device_memory.hpp"
#include "xstage/error.hpp"

namespace xstage::kernels {

namespace {

using Kernel = void (*)(GemmLaunch);

Kernel choose(const GemmLaunchShape& shape) {
  if (shape.instrumented) {
    switch (shape.tile_columns) {
      case 256:
        return gemm_kernel<256, RecordingProbe>;
      case 128:
        return gemm_kernel<128, RecordingProbe>;
      default:
        throw InputError("the instrumented GEMM kernel has no tiles of " + std::to_string(shape.tile_columns) +
                         " columns: 128 or 256");
    }
  }
  switch (shape.tile_columns) {
    case 256:
      return gemm_kernel<256, NoProbe>;
    case 128:
      return gemm_kernel<128, NoProbe>;
    default:
      return gemm_kernel<64, NoProbe>;
  }
}

}  // namespace

void launch_gemm(const GemmLaunch& launch, const GemmLaunchShape& shape, cudaStream_t stream) {
  const Kernel kernel = choose(shape);
  cuda::check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shape.shared_bytes),
              "asking for the GEMM kernel's shared memory");
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeClusterDimension;
  attributes[0].val.clusterDim.x = static_cast<unsigned>(shape.cluster_size);
  attributes[0].val.clusterDim.y = 1;
  attributes[0].val.clusterDim.z = 1;
  attributes[1].id = cudaLaunchAttributeCooperative;
  attributes[1].val.cooperative = 1;
  cudaLaunchConfig_t configuration = {};
  configuration.gridDim = dim3(static_cast<unsigned>(shape.blocks));
  configuration.blockDim = dim3(gemm_threads);
  configuration.dynamicSmemBytes = static_cast<std::size_t>(shape.shared_bytes);
  configuration.stream = stream;
  configuration.attrs = attributes;
  configuration.numAttrs = shape.cooperative ? 2 : 1;
  cuda::check(cudaLaunchKernelEx(&configuration, kernel, launch), "launching the GEMM kernel");
}

}  // namespace xstage::kernels
