// moe::pack_linear1: checks before the kernel.

#include "ops/moe/device/launches.hpp"

#include <fmt/format.h>

#include <cstdint>

#include "device/device_memory.hpp"
#include "ops/moe/problem.hpp"
#include "xstage/error.hpp"
#include "xstage/moe.hpp"
#include "xstage/peer_view.hpp"

namespace xstage::moe {

namespace {

constexpr std::int64_t aligned_elements = 8;  // of bf16 in 16 bytes

void check_address(const char* name, const void* address) {
  if (address == nullptr || reinterpret_cast<std::uintptr_t>(address) % 16 != 0) {
    throw InputError(fmt::format("pack_linear1: {} is at {}: it must be aligned to 16 bytes", name, address));
  }
}

/// The GPU in whose memory the tensor lies. InputError if there is none.
int device_of(const char* name, const void* address) {
  cudaPointerAttributes attributes{};
  cuda::check(cudaPointerGetAttributes(&attributes, address), "asking where a tensor lies");
  if (attributes.type != cudaMemoryTypeDevice && attributes.type != cudaMemoryTypeManaged) {
    throw InputError(fmt::format("pack_linear1: {} is at {}, which is not memory of a GPU", name, address));
  }
  return attributes.device;
}

/// The GPU in whose memory all three tensors lie.
int common_device(const void* gate, const void* up, const void* packed) {
  const int device = device_of("packed", packed);
  const int devices[] = {device_of("gate", gate), device_of("up", up)};
  if (devices[0] != device || devices[1] != device) {
    throw InputError(fmt::format("pack_linear1: gate, up and packed are on GPUs {}, {} and {}: they must be on one",
                                 devices[0], devices[1], device));
  }
  return device;
}

}  // namespace

void pack_linear1(const Problem& problem, const void* gate, const void* up, std::int64_t expert_stride, void* packed,
                  CUstream_st* stream) {
  // Checks only the fields that describe the weights of one rank.
  check_problem({problem.hidden, problem.intermediate, problem.experts_per_rank, 1, 1, 0}, 1);
  check_address("gate", gate);
  check_address("up", up);
  check_address("packed", packed);
  const std::int64_t least = problem.intermediate * problem.hidden;
  const std::int64_t stride = expert_stride == 0 ? least : expert_stride;
  if (stride < least || stride % aligned_elements != 0) {
    throw InputError(
        fmt::format("pack_linear1: expert_stride is {}: it must be 0, or a multiple of {} that is at least "
                    "intermediate * hidden = {}",
                    expert_stride, aligned_elements, least));
  }
  const cuda::CurrentDevice current(common_device(gate, up, packed));
  kernels::launch_pack_linear1(
      {gate, up, packed, problem.experts_per_rank, problem.intermediate, problem.hidden, stride}, stream);
}

}  // namespace xstage::moe
