#pragma once
// Fills device memory while kernels run. Between the launches of two ranks the GPU may be full of CTAs that wait for a
// launch that is still to come. The setup of a handle in that time must therefore not wait for anything that was
// enqueued before, and must not need a multiprocessor.

#include <cuda_runtime_api.h>

#include <cstddef>

namespace xstage::cuda {

/// One object for each device of the process, on a stream of its own. The stream has the highest priority, because
/// otherwise it might share a hardware queue with a stream that is blocked. Bytes are copied from pinned memory by a
/// copy engine, because a memset is a kernel. Neither this object nor anything that is set up by it may be used by two
/// threads at a time.
class DeviceSetup {
 public:
  /// Creates the object on first use, which must come before any launch.
  [[nodiscard]] static DeviceSetup& of(int device);

  /// Enqueues the fill of `bytes` bytes. `value` is 0x00 or 0xFF.
  void fill(void* to, unsigned char value, std::size_t bytes);
  void copy(void* to, const void* from_host, std::size_t bytes);
  /// Waits until all fills have completed.
  void wait();

  [[nodiscard]] cudaStream_t stream() const { return stream_; }

 private:
  explicit DeviceSetup(int device);

  int device_;
  cudaStream_t stream_ = nullptr;  // never destroyed: at the end of the process CUDA may be gone before it
};

}  // namespace xstage::cuda
