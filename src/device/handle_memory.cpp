#include "device/handle_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "device/device_memory.hpp"
#include "device/device_setup.hpp"
#include "xstage/error.hpp"

namespace xstage::cuda {

namespace {

/// Memory of a destroyed handle.
struct Parked {
  std::shared_ptr<InFlight> in_flight;
  std::vector<void*> buffers;
  std::vector<void*> pinned;
};

/// Pool of one device. It lives until the end of the process and then calls no CUDA function, since CUDA may be gone.
struct DevicePool {
  cudaMemPool_t pool = nullptr;
  std::vector<Parked> parked;
};

/// Pools of the process; access needs the mutex.
struct Pools {
  std::mutex mutex;
  std::map<int, DevicePool> devices;
  std::vector<void*> free_slots;  // free slots of pinned memory
};

Pools& pools() {
  static Pools all;
  return all;
}

DevicePool& pool_of(int device) {
  DevicePool& mine = pools().devices[device];
  if (mine.pool == nullptr) {
    cudaMemPoolProps properties{};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location = {cudaMemLocationTypeDevice, device};
    check(cudaMemPoolCreate(&mine.pool, &properties), "creating the memory pool of handles");
    std::uint64_t all_of_it = UINT64_MAX;  // release threshold: memory stays in the pool when a stream is synchronised
    check(cudaMemPoolSetAttribute(mine.pool, cudaMemPoolAttrReleaseThreshold, &all_of_it),
          "asking the memory pool of handles to keep its memory");
  }
  return mine;
}

void free_now(const Parked& parked, int device) {
  for (void* buffer : parked.buffers) {
    static_cast<void>(cudaFreeAsync(buffer, DeviceSetup::of(device).stream()));
  }
  std::vector<void*>& slots = pools().free_slots;
  slots.insert(slots.end(), parked.pinned.begin(), parked.pinned.end());
}

/// Returns the memory of handles whose launches have ended to the pool.
void collect(DevicePool& pool, int device) {
  std::erase_if(pool.parked, [device](const Parked& parked) {
    const bool ended = parked.in_flight->ended();
    if (ended) {
      free_now(parked, device);
    }
    return ended;
  });
}

/// Allocates one more page of slots.
void add_slots() {
  constexpr std::size_t slots = 512;
  void* memory = nullptr;
  check(cudaHostAlloc(&memory, slots * HandleMemory::pinned_bytes, cudaHostAllocPortable | cudaHostAllocMapped),
        "allocating the reports of handles");
  for (std::size_t slot = slots; slot-- > 0;) {
    pools().free_slots.push_back(static_cast<char*>(memory) + slot * HandleMemory::pinned_bytes);
  }
}

}  // namespace

HandleMemory::HandleMemory(int device) : device_(device) {
  static_cast<void>(DeviceSetup::of(device));
  const CurrentDevice current(device);
  const std::scoped_lock lock(pools().mutex);
  collect(pool_of(device), device);
}

HandleMemory::~HandleMemory() {
  Parked parked{in_flight(), std::move(buffers_), std::move(pinned_)};
  const std::scoped_lock lock(pools().mutex);
  pools().devices[device_].parked.push_back(std::move(parked));
}

void* HandleMemory::take(std::size_t bytes, const std::string& purpose) {
  const CurrentDevice current(device_);
  DeviceSetup& setup = DeviceSetup::of(device_);
  const std::scoped_lock lock(pools().mutex);
  buffers_.reserve(buffers_.size() + 1);
  void* buffer = nullptr;
  const cudaError_t status =
      cudaMallocFromPoolAsync(&buffer, std::max<std::size_t>(bytes, 1), pool_of(device_).pool, setup.stream());
  if (status == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    check(cudaMemGetInfo(&free_bytes, &total_bytes), "asking for free memory");
    throw DeviceError(
        fmt::format("GPU {} has {} MiB of {} MiB free, {} needs {} MiB: free some memory or use another GPU", device_,
                    free_bytes >> 20U, total_bytes >> 20U, purpose, (bytes + 0xFFFFF) >> 20U));
  }
  check(status, fmt::format("allocating {} bytes on GPU {} for {}", bytes, device_, purpose));
  buffers_.push_back(buffer);
  setup.wait();  // from here on every stream may use the memory
  return buffer;
}

void* HandleMemory::take_pinned() {
  const CurrentDevice current(device_);
  const std::scoped_lock lock(pools().mutex);
  if (pools().free_slots.empty()) {
    add_slots();
  }
  pinned_.reserve(pinned_.size() + 1);
  void* slot = pools().free_slots.back();
  pools().free_slots.pop_back();
  pinned_.push_back(slot);
  std::memset(slot, 0, pinned_bytes);
  return slot;
}

void free_parked_memory(int device) {
  const std::scoped_lock lock(pools().mutex);
  const auto found = pools().devices.find(device);
  if (found == pools().devices.end() || found->second.pool == nullptr) {
    return;
  }
  const CurrentDevice current(device);
  for (const Parked& parked : found->second.parked) {
    free_now(parked, device);
  }
  found->second.parked.clear();
  DeviceSetup::of(device).wait();
  check(cudaMemPoolTrimTo(found->second.pool, 0), "giving the memory of handles back");
}

}  // namespace xstage::cuda
