// Memory of a PeerAccessHeap: one cudaMalloc for each rank, mapped into all peers by cudaDeviceEnablePeerAccess.

#include <cuda_runtime.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "device/device_memory.hpp"
#include "device/device_setup.hpp"
#include "device/handle_memory.hpp"
#include "heap/process_heap.hpp"
#include "node/cuda/discovery.hpp"
#include "xstage/error.hpp"
#include "xstage/symmetric_heap.hpp"

namespace xstage {
namespace memory {
namespace {

void check_arguments(const std::vector<int>& devices, std::size_t bytes_per_rank) {
  if (devices.empty() || devices.size() > max_world) {
    throw InputError(fmt::format("a heap of {} ranks: list 1 to {} devices, one a rank (a device may repeat)",
                                 devices.size(), max_world));
  }
  if (bytes_per_rank == 0 || bytes_per_rank > PeerAccessHeap::greatest_bytes) {
    throw InputError(
        fmt::format("a heap of {} bytes per rank: from 1 to {}", bytes_per_rank, PeerAccessHeap::greatest_bytes));
  }
  const int count = cuda::device_count();
  for (const int device : devices) {
    if (device < 0 || device >= count) {
      throw InputError(fmt::format("rank {} on device {}: this process sees devices 0 to {}",
                                   std::find(devices.begin(), devices.end(), device) - devices.begin(), device,
                                   count - 1));
    }
  }
}

void enable_access(int from, int to) {
  const cuda::CurrentDevice current(from);
  const cudaError_t status = cudaDeviceEnablePeerAccess(to, 0);
  if (status == cudaErrorPeerAccessAlreadyEnabled) {
    static_cast<void>(cudaGetLastError());
    return;
  }
  cuda::check(status, fmt::format("cudaDeviceEnablePeerAccess from GPU {} to GPU {}", from, to));
}

/// Checks all pairs of devices before it enables access for any of them.
void connect(const std::set<int>& devices) {
  const auto for_each_pair = [&](auto&& action) {
    for (const int from : devices) {
      for (const int to : devices) {
        if (from != to) {
          action(from, to);
        }
      }
    }
  };
  for_each_pair([](int from, int to) {
    if (!cuda::can_reach(from, to)) {
      throw DeviceError(
          fmt::format("GPU {} cannot reach the memory of GPU {}: a peer access heap needs GPUs that reach each other "
                      "both ways ('nvidia-smi topo -p2p w' shows which do)",
                      from, to));
    }
  });
  for_each_pair(enable_access);
}

class PeerAccessMemory final : public RankMemory {
 public:
  PeerAccessMemory(const std::vector<int>& devices, std::size_t bytes_per_rank)
      : devices_(devices), distinct_(devices.begin(), devices.end()) {
    connect(distinct_);
    for (const int device : devices) {
      // cudaMalloc promises 256 bytes of alignment only.
      buffers_.emplace_back(device, bytes_per_rank + HeapRank::greatest_alignment,
                            fmt::format("the symmetric heap of rank {}", buffers_.size()));
      const cuda::CurrentDevice current(device);
      cuda::check(cudaMemset(base(static_cast<int>(buffers_.size()) - 1), 0, bytes_per_rank), "clearing a heap");
    }
    for (const int device : distinct_) {
      const cuda::CurrentDevice current(device);
      cuda::check(cudaDeviceSynchronize(), fmt::format("cudaDeviceSynchronize on GPU {}", device));
    }
  }

  PeerAccessMemory(const PeerAccessMemory&) = delete;
  PeerAccessMemory& operator=(const PeerAccessMemory&) = delete;

  /// Kernels of one rank store into the memory of other ranks, so all devices must be idle before any memory is freed.
  ~PeerAccessMemory() override {
    int previous = 0;
    static_cast<void>(cudaGetDevice(&previous));
    for (const int device : distinct_) {
      static_cast<void>(cudaSetDevice(device));
      static_cast<void>(cudaDeviceSynchronize());
      cuda::free_parked_memory(device);
    }
    static_cast<void>(cudaSetDevice(previous));
  }

  [[nodiscard]] int world() const override { return static_cast<int>(devices_.size()); }
  [[nodiscard]] int device(int rank) const override { return devices_[static_cast<std::size_t>(rank)]; }

  [[nodiscard]] char* base(int rank) const override {
    constexpr std::uintptr_t alignment = HeapRank::greatest_alignment;
    char* start = buffers_[static_cast<std::size_t>(rank)].as<char>();
    return start + (alignment - reinterpret_cast<std::uintptr_t>(start) % alignment) % alignment;
  }

  /// Does not wait for kernels in flight, since they may wait for a peer whose launch is still to come.
  void clear(int rank, std::size_t offset, std::size_t bytes) override {
    cuda::DeviceSetup& setup = cuda::DeviceSetup::of(device(rank));
    setup.fill(base(rank) + offset, 0x00, bytes);
    setup.wait();
  }

 private:
  std::vector<int> devices_;  // [rank]
  std::set<int> distinct_;
  std::vector<cuda::DeviceBuffer> buffers_;  // [rank]
};

}  // namespace
}  // namespace memory

PeerAccessHeap PeerAccessHeap::create(const std::vector<int>& devices, std::size_t bytes_per_rank) {
  memory::check_arguments(devices, bytes_per_rank);
  return PeerAccessHeap(std::make_unique<memory::ProcessHeap>(
      std::make_unique<memory::PeerAccessMemory>(devices, bytes_per_rank), bytes_per_rank));
}

}  // namespace xstage
