#pragma once
// Device and pinned memory of handles, made and dropped without waiting for the device.
//
// cudaMalloc may wait for kernels that run, cudaFree and cudaFreeHost do: between the launches of two ranks that is a
// deadlock until the first one's time-out, and a garbage collector may drop a handle at any time. So what a handle had
// is parked until all that it launched has ended, then taken by the next handles; device memory comes from a memory
// pool of CUDA's, pinned memory from slots of a page. Memory is what the handles that lived at one time needed at most;
// it goes back to the device when a symmetric heap ends.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>
#include <vector>

#include "device/in_flight.hpp"

namespace xstage::cuda {

/// What one handle owns on its device.
class HandleMemory {
 public:
  explicit HandleMemory(int device);
  ~HandleMemory();
  HandleMemory(const HandleMemory&) = delete;
  HandleMemory& operator=(const HandleMemory&) = delete;

  /// Most bytes that take_pinned gives.
  static constexpr std::size_t pinned_bytes = 128;

  /// Anything may stand there. Throws DeviceError that says what `purpose` needs, and what is free.
  [[nodiscard]] void* take(std::size_t bytes, const std::string& purpose);
  template <class Element>
  [[nodiscard]] Element* take(std::size_t count, const std::string& purpose) {
    return static_cast<Element*>(take(count * sizeof(Element), purpose));
  }
  /// Zeros that host and devices read and write, at most pinned_bytes.
  [[nodiscard]] void* take_pinned();

  /// After each launch that uses any of it: its stream.
  void launched_on(cudaStream_t stream) { streams_.note(stream); }
  /// At the end of the handle: what its launches are.
  [[nodiscard]] std::shared_ptr<InFlight> in_flight() const { return streams_.in_flight(device_); }

  [[nodiscard]] int device() const { return device_; }

 private:
  int device_;
  std::vector<void*> buffers_;
  std::vector<void*> pinned_;
  LaunchStreams streams_;
};

/// Gives a device's parked memory back to it. The device is idle.
void free_parked_memory(int device);

}  // namespace xstage::cuda
