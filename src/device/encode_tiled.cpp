#include "device/encode_tiled.hpp"

#include <cuda_runtime_api.h>

#include "device/device_memory.hpp"
#include "xstage/error.hpp"

namespace xstage::kernels {

EncodeTiled encode_tiled() {
  static const EncodeTiled function = [] {
    void* address = nullptr;
    cudaDriverEntryPointQueryResult found{};
    cuda::check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &address, 12000, cudaEnableDefault, &found),
                "looking up cuTensorMapEncodeTiled");
    if (found != cudaDriverEntryPointSuccess) {
      throw DeviceError("the driver has no cuTensorMapEncodeTiled: it must be of CUDA 12 or later");
    }
    return reinterpret_cast<EncodeTiled>(address);
  }();
  return function;
}

}  // namespace xstage::kernels
