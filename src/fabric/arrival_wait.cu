#include "fabric/arrival_wait.hpp"

#include "device/launch.hpp"
#include "fabric/call.cuh"

namespace xstage::kernels {

namespace {

__global__ void arrival_wait_kernel(const __grid_constant__ CallParameters parameters, std::uint32_t posts_each) {
  cudaTriggerProgrammaticLaunchCompletion();
  cudaGridDependencySynchronize();  // after this the call has ended on this rank, and its epochs hold the number of the
                                    // next one
  const CollectiveCall call(parameters, 0);
  call.await_arrival(call.epoch() - 1U, posts_each);
}

}  // namespace

void load_arrival_wait() {
  load_kernel(arrival_wait_kernel, SharedMemoryUse::none, "the kernel that waits for arrivals");
}

void launch_arrival_wait(const CallParameters& parameters, std::uint32_t posts_each, cudaStream_t stream) {
  LaunchShape shape;
  shape.start = Start::overlapping;
  launch_kernel(arrival_wait_kernel, shape, stream, "the kernel that waits for arrivals", parameters, posts_each);
}

}  // namespace xstage::kernels
