#include "fabric/common_launch.hpp"

#include <fmt/format.h>

#include <vector>

#include "device/device_memory.hpp"
#include "xstage/error.hpp"

namespace xstage::kernels {

void check_common_launch(std::span<const HeapRank* const> heaps, std::size_t operands) {
  const std::size_t world =
      heaps.empty() || heaps[0] == nullptr ? heaps.size() : static_cast<std::size_t>(heaps[0]->world());
  if (heaps.empty() || heaps.size() != operands || heaps.size() != world) {
    throw InputError(fmt::format("{} handles and {} operands: a common launch needs one of each for every rank",
                                 heaps.size(), operands));
  }
  std::vector<bool> seen(world, false);
  for (std::size_t index = 0; index < world; ++index) {
    const HeapRank* const heap = heaps[index];
    if (heap == nullptr) {
      throw InputError(fmt::format("handle {} is null: a common launch needs one for every rank", index));
    }
    if (static_cast<std::size_t>(heap->world()) != world || seen[static_cast<std::size_t>(heap->rank())]) {
      throw InputError(
          fmt::format("handle {} is of rank {} among {}: a common launch needs one handle of each of the {} "
                      "ranks of one heap",
                      index, heap->rank(), heap->world(), world));
    }
    if (heap->device() != heaps[0]->device()) {
      throw InputError(fmt::format(
          "handle {} is on GPU {}, handle 0 on GPU {}: a common launch is for virtual ranks, which share one; call "
          "launch() for each rank instead",
          index, heap->device(), heaps[0]->device()));
    }
    seen[static_cast<std::size_t>(heap->rank())] = true;
  }
}

void VirtualParameters::copy(cuda::HandleMemory& memory, const void* launches, std::size_t bytes, cudaStream_t stream) {
  if (bytes_ < bytes) {
    there_ = memory.take(bytes, "parameters of virtual ranks");
    bytes_ = bytes;
  }
  cuda::check(cudaMemcpyAsync(there_, launches, bytes, cudaMemcpyHostToDevice, stream),
              "copying the parameters of virtual ranks");
  cuda::check(cudaStreamSynchronize(stream), "copying the parameters of virtual ranks");
}

}  // namespace xstage::kernels
