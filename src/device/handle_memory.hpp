#pragma once
// Device and pinned memory of handles, allocated and freed without waiting for the device.
//
// cudaMalloc may wait for running kernels, and cudaFree and cudaFreeHost always do. Between the launches of two ranks
// that is a deadlock until the wait of the first rank times out, and a garbage collector may destroy a handle at any
// time. The memory of a destroyed handle is therefore parked until everything that the handle launched has ended, and
// later handles reuse it. Device memory comes from a CUDA memory pool, pinned memory from slots of a page. The process
// keeps as much memory as its handles needed at one time at most; it returns to the device when a symmetric heap is
// destroyed.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>
#include <vector>

#include "device/in_flight.hpp"

namespace xstage::cuda {

/// Memory that one handle owns on its device.
class HandleMemory {
 public:
  explicit HandleMemory(int device);
  ~HandleMemory();
  HandleMemory(const HandleMemory&) = delete;
  HandleMemory& operator=(const HandleMemory&) = delete;

  /// Upper bound of the bytes that take_pinned returns.
  static constexpr std::size_t pinned_bytes = 128;

  /// Allocates `bytes` of uninitialised device memory. Throws DeviceError that says what `purpose` needs, and what is
  /// free.
  [[nodiscard]] void* take(std::size_t bytes, const std::string& purpose);
  template <class Element>
  [[nodiscard]] Element* take(std::size_t count, const std::string& purpose) {
    return static_cast<Element*>(take(count * sizeof(Element), purpose));
  }
  /// Pinned memory of at most pinned_bytes, filled with zeros, which the host and devices read and write.
  [[nodiscard]] void* take_pinned();

  /// Notes the stream of a launch that uses this memory; to be called after each of them.
  void launched_on(cudaStream_t stream) { streams_.note(stream); }
  /// State of all launches of the handle, at the end of its life.
  [[nodiscard]] std::shared_ptr<InFlight> in_flight() const { return streams_.in_flight(device_); }

  [[nodiscard]] int device() const { return device_; }

 private:
  int device_;
  std::vector<void*> buffers_;
  std::vector<void*> pinned_;
  LaunchStreams streams_;
};

/// Returns a device's parked memory to the device, which must be idle.
void free_parked_memory(int device);

}  // namespace xstage::cuda
