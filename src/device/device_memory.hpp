#pragma once
// RAII over the CUDA runtime: every call is checked, and every buffer is freed on its own device.

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace xstage::cuda {

/// Throws DeviceError "WHAT: error text (name)" unless `status` is success. CUDA keeps a failed call's error and
/// returns it again from a later query; this function reports the error and clears it.
void check(cudaError_t status, const std::string& what);

/// Makes `device` current for a scope.
class CurrentDevice {
 public:
  explicit CurrentDevice(int device);
  ~CurrentDevice();
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

 private:
  int previous_ = 0;
};

/// Plain device memory of one GPU.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(int device, std::size_t bytes, const std::string& purpose);
  ~DeviceBuffer();
  DeviceBuffer(DeviceBuffer&& other) noexcept { *this = std::move(other); }
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  template <typename T>
  [[nodiscard]] T* as() const {
    return static_cast<T*>(pointer_);
  }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

  /// Copies `count` elements to the host; synchronous.
  template <typename T>
  [[nodiscard]] std::vector<T> read(std::size_t count) const {
    std::vector<T> values(count);
    check(cudaMemcpy(values.data(), pointer_, count * sizeof(T), cudaMemcpyDeviceToHost), "reading back a buffer");
    return values;
  }
  void clear(cudaStream_t stream) const;

 private:
  void* pointer_ = nullptr;
  std::size_t bytes_ = 0;
  int device_ = 0;
};

/// A stream on one device.
class Stream {
 public:
  explicit Stream(int device);
  ~Stream();
  Stream(Stream&& other) noexcept : stream_(std::exchange(other.stream_, nullptr)), device_(other.device_) {}
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  Stream& operator=(Stream&&) = delete;
  [[nodiscard]] cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
  int device_ = 0;
};

}  // namespace xstage::cuda
