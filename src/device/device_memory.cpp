#include "device/device_memory.hpp"

#include <fmt/format.h>

#include "xstage/error.hpp"

namespace xstage::cuda {

void check(cudaError_t status, const std::string& what) {
  if (status != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    throw DeviceError(fmt::format("{}: {} ({})", what, cudaGetErrorString(status), cudaGetErrorName(status)));
  }
}

CurrentDevice::CurrentDevice(int device) {
  check(cudaGetDevice(&previous_), "asking for the current GPU");
  check(cudaSetDevice(device), fmt::format("selecting GPU {}", device));
}

CurrentDevice::~CurrentDevice() { static_cast<void>(cudaSetDevice(previous_)); }

DeviceBuffer::DeviceBuffer(int device, std::size_t bytes, const std::string& purpose) : bytes_(bytes), device_(device) {
  const CurrentDevice current(device);
  const cudaError_t status = cudaMalloc(&pointer_, bytes);
  if (status == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    check(cudaMemGetInfo(&free_bytes, &total_bytes), "asking for free memory");
    throw DeviceError(
        fmt::format("GPU {} has {} MiB of {} MiB free, {} needs {} MiB: free some memory or use another GPU", device,
                    free_bytes >> 20U, total_bytes >> 20U, purpose, (bytes + 0xFFFFF) >> 20U));
  }
  check(status, fmt::format("allocating {} bytes on GPU {} for {}", bytes, device, purpose));
}

DeviceBuffer::~DeviceBuffer() {
  if (pointer_ != nullptr) {
    static_cast<void>(cudaFree(pointer_));
  }
}

DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  std::swap(pointer_, other.pointer_);
  std::swap(bytes_, other.bytes_);
  std::swap(device_, other.device_);
  return *this;
}

void DeviceBuffer::clear(cudaStream_t stream) const {
  const CurrentDevice current(device_);
  check(cudaMemsetAsync(pointer_, 0, bytes_, stream), "clearing a buffer");
}

Stream::Stream(int device) : device_(device) {
  const CurrentDevice current(device);
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "creating a stream");
}

Stream::~Stream() {
  if (stream_ != nullptr) {
    static_cast<void>(cudaStreamDestroy(stream_));
  }
}

}  // namespace xstage::cuda
