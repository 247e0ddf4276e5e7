// The all-to-all kernels and their launch.

#include "kernels/all_to_all/all_to_all.hpp"

#include "kernels/all_to_all/all_to_all_kernel.cuh"
#include "node/cuda/device_memory.hpp"

namespace xstage::kernels {

namespace {

/// What a Hopper multiprocessor gives one CTA. The attribute belongs to the kernel: the same for all handles.
constexpr int most_shared_bytes = 227 * 1024;

/// All of L1 as shared memory, as the kernels before and after have it: a multiprocessor that divides it anew must be
/// idle first.
template <class Function>
void allow_shared_memory(Function kernel) {
  cuda::check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most_shared_bytes),
              "asking for the all-to-all kernel's shared memory");
  cuda::check(
      cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared),
      "asking for the all-to-all kernel's shared memory");
}

template <class Function, class... Arguments>
void enqueue(Function kernel, const AllToAllLaunch& launch, int ranks, bool cooperative, cudaStream_t stream,
             const Arguments&... arguments) {
  cudaLaunchAttribute attribute{};
  // Virtual ranks must be resident together; a rank's own kernel may start while the one before it in the stream ends.
  if (cooperative) {
    attribute.id = cudaLaunchAttributeCooperative;
    attribute.val.cooperative = 1;
  } else {
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
  }
  cudaLaunchConfig_t configuration = {};
  configuration.gridDim = dim3(static_cast<unsigned>(launch.schedule.tiling().blocks * ranks));
  configuration.blockDim = dim3(all_to_all_threads);
  configuration.dynamicSmemBytes =
      static_cast<std::size_t>(AllToAllShared::stages_offset + launch.stages * launch.stage_bytes);
  configuration.stream = stream;
  configuration.attrs = &attribute;
  configuration.numAttrs = 1;
  cuda::check(cudaLaunchKernelEx(&configuration, kernel, arguments...), "launching the all-to-all kernel");
}

}  // namespace

void load_all_to_all() {
  allow_shared_memory(all_to_all_kernel);
  allow_shared_memory(all_to_all_virtual_kernel);
}

void launch_all_to_all(const AllToAllLaunch& launch, cudaStream_t stream) {
  enqueue(all_to_all_kernel, launch, 1, false, stream, launch);
}

void launch_virtual_all_to_all(const AllToAllLaunch* launches, const AllToAllLaunch& first, int ranks,
                               cudaStream_t stream) {
  enqueue(all_to_all_virtual_kernel, first, ranks, true, stream, launches, static_cast<std::int32_t>(ranks));
}

}  // namespace xstage::kernels
