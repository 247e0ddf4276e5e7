#include "device/device_setup.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>

#include "device/device_memory.hpp"

namespace xstage::cuda {

namespace {

constexpr std::size_t piece_bytes = std::size_t{1} << 20U;

/// Pinned memory: a block of zeros, followed by a block of 0xFF bytes. It is never freed, since freeing waits for all
/// devices.
const unsigned char* pieces() {
  static const unsigned char* const memory = [] {
    void* pinned = nullptr;
    check(cudaHostAlloc(&pinned, 2 * piece_bytes, cudaHostAllocPortable), "allocating what buffers are filled from");
    std::memset(pinned, 0x00, piece_bytes);
    std::memset(static_cast<unsigned char*>(pinned) + piece_bytes, 0xFF, piece_bytes);
    return static_cast<const unsigned char*>(pinned);
  }();
  return memory;
}

}  // namespace

DeviceSetup& DeviceSetup::of(int device) {
  static std::mutex mutex;
  static std::map<int, std::unique_ptr<DeviceSetup>> all;
  const std::scoped_lock lock(mutex);
  std::unique_ptr<DeviceSetup>& setup = all[device];
  if (setup == nullptr) {
    setup.reset(new DeviceSetup(device));
  }
  return *setup;
}

DeviceSetup::DeviceSetup(int device) : device_(device) {
  const CurrentDevice current(device);
  static_cast<void>(pieces());
  int least = 0;
  int greatest = 0;
  check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "asking for the priorities of streams");
  check(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, greatest), "creating the stream of setup");
}

void DeviceSetup::fill(void* to, unsigned char value, std::size_t bytes) {
  const CurrentDevice current(device_);
  const unsigned char* from = pieces() + (value == 0 ? 0 : piece_bytes);
  for (std::size_t begin = 0; begin < bytes; begin += piece_bytes) {
    check(cudaMemcpyAsync(static_cast<char*>(to) + begin, from, std::min(piece_bytes, bytes - begin),
                          cudaMemcpyHostToDevice, stream_),
          "filling a buffer");
  }
}

void DeviceSetup::copy(void* to, const void* from_host, std::size_t bytes) {
  const CurrentDevice current(device_);
  check(cudaMemcpyAsync(to, from_host, bytes, cudaMemcpyHostToDevice, stream_), "copying into a buffer");
}

void DeviceSetup::wait() { check(cudaStreamSynchronize(stream_), "waiting for the setup of a buffer"); }

}  // namespace xstage::cuda
