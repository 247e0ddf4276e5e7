#pragma once
// Virtual ranks: all ranks of a heap on one GPU, whose kernels are one cooperative launch with parameters in device
// memory.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <span>
#include <vector>

#include "device/handle_memory.hpp"
#include "xstage/symmetric_heap.hpp"

namespace xstage::kernels {

/// Before a common launch of handles with these heaps, null where a handle is: throws InputError unless they are all
/// ranks of one heap on one GPU, each with operands.
void check_common_launch(std::span<const HeapRank* const> heaps, std::size_t operands);

/// The same for the handles of an operation.
template <class Handle, class HeapOf>
void check_common_launch(std::span<Handle* const> handles, std::size_t operands, const HeapOf& heap_of) {
  std::vector<const HeapRank*> heaps;
  for (Handle* const handle : handles) {
    heaps.push_back(handle == nullptr ? nullptr : &heap_of(*handle));
  }
  check_common_launch(heaps, operands);
}

/// Device copy of the parameters of all virtual ranks, in the memory of the handle of the first of them.
class VirtualParameters {
 public:
  /// There when it returns.
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
