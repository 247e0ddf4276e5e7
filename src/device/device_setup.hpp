#pragma once
// Filling device memory while kernels run. Between the launches of two ranks the GPU is full of CTAs that wait for a
// launch that is still to come: what sets up a handle meanwhile may wait for nothing that was enqueued before it, and
// may need no multiprocessor.

#include <cuda_runtime_api.h>

#include <cstddef>

namespace xstage::cuda {

/// One a device and process, on a stream of its own; that of the highest priority, or it might share a hardware queue
/// with one that is blocked. Bytes come from pinned memory by copy engine: a memset is a kernel. Not for use by two
/// threads at a time, like what is set up by it.
class DeviceSetup {
 public:
  /// Made on first use, which belongs before any launch.
  [[nodiscard]] static DeviceSetup& of(int device);

  /// `value`: 0x00 or 0xFF.
  void fill(void* to, unsigned char value, std::size_t bytes);
  void copy(void* to, const void* from_host, std::size_t bytes);
  /// Until all of that is there.
  void wait();

  [[nodiscard]] cudaStream_t stream() const { return stream_; }

 private:
  explicit DeviceSetup(int device);

  int device_;
  cudaStream_t stream_ = nullptr;  // for ever: at the end of the process CUDA may be gone before it
};

}  // namespace xstage::cuda
