#include "kernels/collective/arrival_wait.hpp"

#include "kernels/collective/call.cuh"
#include "node/cuda/device_memory.hpp"

namespace xstage::kernels {

namespace {

__global__ void arrival_wait_kernel(const __grid_constant__ CallParameters parameters, std::uint32_t posts_each) {
  cudaTriggerProgrammaticLaunchCompletion();
  cudaGridDependencySynchronize();  // the call has ended here, and counted on the number of the next one
  const CollectiveCall call(parameters, 0);
  call.await_arrival(call.epoch() - 1U, posts_each);
}

}  // namespace

void load_arrival_wait() {
  cudaFuncAttributes attributes{};
  cuda::check(cudaFuncGetAttributes(&attributes, arrival_wait_kernel), "loading the kernel that waits for arrivals");
}

void launch_arrival_wait(const CallParameters& parameters, std::uint32_t posts_each, cudaStream_t stream) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t configuration = {};
  configuration.gridDim = dim3(1);
  configuration.blockDim = dim3(1);
  configuration.stream = stream;
  configuration.attrs = &attribute;
  configuration.numAttrs = 1;
  cuda::check(cudaLaunchKernelEx(&configuration, arrival_wait_kernel, parameters, posts_each),
              "launching the kernel that waits for arrivals");
}

}  // namespace xstage::kernels
