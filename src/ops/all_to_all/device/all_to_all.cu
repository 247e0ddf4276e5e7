// The all-to-all kernels and their launch.

#include "ops/all_to_all/device/all_to_all.hpp"

#include "device/launch.hpp"
#include "ops/all_to_all/device/all_to_all_kernel.cuh"

namespace xstage::kernels {

namespace {

LaunchShape launch_shape(const AllToAllLaunch& launch, int ranks, Start start) {
  return {static_cast<unsigned>(launch.schedule.tiling().blocks * ranks), all_to_all_threads,
          AllToAllShared::stages_offset + launch.stages * launch.stage_bytes, SharedMemoryUse::all_of_l1, start};
}

}  // namespace

void load_all_to_all() {
  load_kernel(all_to_all_kernel, SharedMemoryUse::all_of_l1, "the all-to-all kernel");
  load_kernel(all_to_all_virtual_kernel, SharedMemoryUse::all_of_l1, "the all-to-all kernel of virtual ranks");
}

void launch_all_to_all(const AllToAllLaunch& launch, cudaStream_t stream) {
  launch_kernel(all_to_all_kernel, launch_shape(launch, 1, Start::overlapping), stream, "the all-to-all kernel",
                launch);
}

void launch_virtual_all_to_all(const AllToAllLaunch* launches, const AllToAllLaunch& first, int ranks,
                               cudaStream_t stream) {
  launch_kernel(all_to_all_virtual_kernel, launch_shape(first, ranks, Start::together), stream,
                "the all-to-all kernel of virtual ranks", launches, ranks);
}

}  // namespace xstage::kernels
