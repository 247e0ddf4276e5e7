#include "gpu/rank_support.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "bench/random_bits.hpp"
#include "device/device_memory.hpp"
#include "node/cuda/discovery.hpp"
#include "xstage/error.hpp"

namespace xstage::gpu_test {

namespace {

int attribute(int device, cudaDeviceAttr which) {
  int value = 0;
  cuda::check(cudaDeviceGetAttribute(&value, which, device), "asking a GPU for an attribute");
  return value;
}

}  // namespace

std::string unavailable_reason(int gpus) {
  try {
    if (cuda::device_count() < gpus) {
      return fmt::format("fewer than {} GPUs are visible", gpus);
    }
    for (int device = 0; device < gpus; ++device) {
      const int major = attribute(device, cudaDevAttrComputeCapabilityMajor);
      const int minor = attribute(device, cudaDevAttrComputeCapabilityMinor);
      if (major != 9 || minor != 0) {
        return fmt::format("GPU {} has compute capability {}.{}, the kernels need 9.0", device, major, minor);
      }
      if (device > 0 && !(cuda::can_reach(0, device) && cuda::can_reach(device, 0))) {
        return fmt::format("GPUs 0 and {} cannot reach each other's memory", device);
      }
    }
  } catch (const DeviceError& error) {
    return error.what();
  }
  return "";
}

int Random::between(int least, int most) {
  const std::uint64_t bits = bench::random_bits(seed_, count_++);
  return least + static_cast<int>(bits % static_cast<std::uint64_t>(most - least + 1));
}

}  // namespace xstage::gpu_test
