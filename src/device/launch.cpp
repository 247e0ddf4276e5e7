#include "device/launch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <set>
#include <utility>

#include "device/device_memory.hpp"
#include "xstage/error.hpp"

namespace xstage::kernels {

namespace {

/// Kernels that this process has loaded and launched.
struct KnownKernels {
  std::mutex mutex;
  std::set<std::pair<int, const void*>> loaded;  // with the device
  std::vector<const void*> launched;             // in the order of their first launch; a few dozen at most
};

KnownKernels& known_kernels() {
  static KnownKernels known;
  return known;
}

void set_attributes(const void* kernel, int device, SharedMemoryUse shared, const char* what) {
  cudaFuncAttributes attributes{};
  cuda::check(cudaFuncGetAttributes(&attributes, kernel), std::string("loading ") + what);
  if (shared == SharedMemoryUse::none) {
    return;
  }
  int most = 0;
  cuda::check(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
              "asking for the shared memory of a CTA");
  cuda::check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   most - static_cast<int>(attributes.sharedSizeBytes)),
              std::string("asking for the shared memory of ") + what);
  if (shared == SharedMemoryUse::all_of_l1) {
    cuda::check(
        cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared),
        std::string("asking for the shared memory of ") + what);
  }
}

/// Refuses a stream of another GPU. CUDA 13 accepts it without an error and runs the kernel on that GPU, where its
/// peers do not expect it.
void check_stream(cudaStream_t stream, const char* what) {
  if (stream == nullptr) {
    return;  // a stream of the current GPU
  }
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  cuda::check(cudaStreamIsCapturing(stream, &capture), "asking whether a stream is captured");
  if (capture != cudaStreamCaptureStatusNone) {
    return;  // nothing else may be asked of it
  }
  int current = 0;
  int device = 0;
  cuda::check(cudaGetDevice(&current), "asking for the current GPU");
  cuda::check(cudaStreamGetDevice(stream, &device), "asking for the GPU of a stream");
  if (device != current) {
    throw InputError(fmt::format("launching {} on a stream of GPU {}: it must be one of GPU {}, where the rank is",
                                 what, device, current));
  }
}

}  // namespace

void load_kernel(const void* kernel, SharedMemoryUse shared, const char* what) {
  int device = 0;
  cuda::check(cudaGetDevice(&device), "asking for the current GPU");
  KnownKernels& known = known_kernels();
  const std::scoped_lock lock(known.mutex);
  if (known.loaded.contains({device, kernel})) {
    return;
  }
  set_attributes(kernel, device, shared, what);
  known.loaded.emplace(device, kernel);
}

void launch_kernel(const void* kernel, const LaunchShape& shape, cudaStream_t stream, const char* what,
                   void** arguments) {
  check_stream(stream, what);
  load_kernel(kernel, shape.shared, what);
  cudaLaunchAttribute attributes[2] = {};
  unsigned count = 0;
  if (shape.cluster > 1) {
    attributes[count].id = cudaLaunchAttributeClusterDimension;
    attributes[count].val.clusterDim.x = static_cast<unsigned>(shape.cluster);
    attributes[count].val.clusterDim.y = 1;
    attributes[count].val.clusterDim.z = 1;
    ++count;
  }
  if (shape.start == Start::together) {
    attributes[count].id = cudaLaunchAttributeCooperative;
    attributes[count++].val.cooperative = 1;
  } else if (shape.start == Start::overlapping) {
    attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[count++].val.programmaticStreamSerializationAllowed = 1;
  }
  cudaLaunchConfig_t configuration = {};
  configuration.gridDim = shape.blocks;
  configuration.blockDim = dim3(static_cast<unsigned>(shape.threads));
  configuration.dynamicSmemBytes = static_cast<std::size_t>(shape.shared_bytes);
  configuration.stream = stream;
  configuration.attrs = attributes;
  configuration.numAttrs = count;
  const cudaError_t status = cudaLaunchKernelExC(&configuration, kernel, arguments);
  if (status == cudaErrorCooperativeLaunchTooLarge) {
    static_cast<void>(cudaGetLastError());
    throw DeviceError(
        fmt::format("launching {}: its {} CTAs wait for each other, and do not fit on the GPU at once; give the plan "
                    "fewer issuers",
                    what, shape.blocks.x));
  }
  cuda::check(status, std::string("launching ") + what);
  KnownKernels& known = known_kernels();
  const std::scoped_lock lock(known.mutex);
  if (std::find(known.launched.begin(), known.launched.end(), kernel) == known.launched.end()) {
    known.launched.push_back(kernel);
  }
}

std::vector<std::string> launched_kernels() {
  KnownKernels& known = known_kernels();
  const std::scoped_lock lock(known.mutex);
  std::vector<std::string> names;
  for (const void* kernel : known.launched) {
    const char* name = nullptr;
    cuda::check(cudaFuncGetName(&name, kernel), "asking for a kernel's name");
    names.emplace_back(name);
  }
  return names;
}

}  // namespace xstage::kernels
