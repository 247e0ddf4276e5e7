#pragma once
// Launches of virtual ranks: all ranks of a heap lie on one GPU, and their kernels are one cooperative launch whose
// parameters lie in device memory.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <span>
#include <vector>

#include "device/handle_memory.hpp"
#include "xstage/symmetric_heap.hpp"

namespace xstage::kernels {

/// Checks a common launch of handles with these heaps, null for a null handle. Throws InputError unless they are all
/// ranks of one heap on one GPU and each rank has operands.
void check_common_launch(std::span<const HeapRank* const> heaps, std::size_t operands);

/// The same check for the handles of an operation.
template <class Handle, class HeapOf>
void check_common_launch(std::span<Handle* const> handles, std::size_t operands, const HeapOf& heap_of) {
  std::vector<const HeapRank*> heaps;
  for (Handle* const handle : handles) {
    heaps.push_back(handle == nullptr ? nullptr : &heap_of(*handle));
  }
  check_common_launch(heaps, operands);
}

/// Device copy of the parameters of all virtual ranks, in memory of the first rank's handle.
class VirtualParameters {
 public:
  /// Copies the parameters, and returns when they are there.
  template <class Launch>
  [[nodiscard]] const Launch* upload(cuda::HandleMemory& memory, const std::vector<Launch>& launches,
                                     cudaStream_t stream) {
    copy(memory, launches.data(), launches.size() * sizeof(Launch), stream);
    return static_cast<const Launch*>(there_);
  }

 private:
  void copy(cuda::HandleMemory& memory, const void* launches, std::size_t bytes, cudaStream_t stream);

  void* there_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace xstage::kernels
