#pragma once
// What a role of the mixture-of-experts kernels gets from its kernel: the place where it runs, and for tests a delay.
// A role assumes nothing else of its CTA, so that one kernel may hold the roles of several.

#include <cstdint>

#include "ops/moe/device/parameters.hpp"

namespace xstage::kernels {

__device__ inline std::int32_t lane_index() { return static_cast<std::int32_t>(threadIdx.x % 32U); }

/// This warp's number in the CTA, from one lane to all: the compiler then knows that they agree on it.
__device__ inline std::int32_t warp_index() {
  return __shfl_sync(0xFFFFFFFFU, static_cast<std::int32_t>(threadIdx.x / 32U), 0);
}

/// From that byte on, the dynamic shared memory of the CTA. An address from a constant wherever it is needed, instead
/// of one that registers keep.
template <class Type>
[[nodiscard]] __device__ inline Type* role_shared(std::int32_t offset) {
  extern __shared__ __align__(1024) char dynamic_shared[];
  return reinterpret_cast<Type*>(dynamic_shared + offset);
}

struct RolePlace {
  std::int32_t first_warp;  // of the CTA: the role's warps follow each other
  std::int32_t warps;
  std::int32_t warp;     // of these, the one that asks; the same in all lanes
  std::int32_t barrier;  // the CTA's barrier that is theirs alone
  std::int32_t
      shared_offset;   // where the memory that the kernel's roles share begins in that of the CTA, on 1024 bytes
  std::int32_t block;  // of the CTAs that run the role on this rank
  std::int32_t blocks;

  [[nodiscard]] __device__ std::int32_t threads() const { return 32 * warps; }
  [[nodiscard]] __device__ std::int32_t thread() const {
    return static_cast<std::int32_t>(threadIdx.x) - 32 * first_warp;
  }
  /// All warps of the role.
  __device__ void synchronise() const { asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads()) : "memory"); }
  /// Some of these warps, from `first` on. For roles whose warps do not meet.
  [[nodiscard]] __device__ RolePlace part(std::int32_t first, std::int32_t count) const {
    RolePlace place = *this;
    place.first_warp += first;
    place.warps = count;
    place.warp -= first;
    return place;
  }
};

/// No delay: the product's kernels.
struct NoMoeDelay {
  __device__ NoMoeDelay(const MoeDelays&, const RolePlace&) {}
  __device__ void operator()() {}
};

/// Random sleeps of a warp at every store, flag and wait of dispatch and combine, which shake out wrong order. Compiled
/// into a second instantiation of the kernels, for tests. One object a role of a warp; all lanes call and sleep alike.
class RandomMoeDelay {
 public:
  __device__ RandomMoeDelay(const MoeDelays& delays, const RolePlace& place)
      : longest_ns_(delays.longest_ns),
        random_(delays.seed + static_cast<std::uint32_t>(place.block * 32 + place.warp) * 0x9E3779B9U) {}

  /// One call in four.
  __device__ void operator()() {
    random_ = random_ * 1664525U + 1013904223U;
    if ((random_ >> 30U) == 0U) {
      __nanosleep((random_ >> 8U) % longest_ns_);
    }
    __syncwarp();
  }

 private:
  const std::uint32_t longest_ns_;
  std::uint32_t random_;
};

}  // namespace xstage::kernels
