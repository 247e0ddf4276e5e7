#pragma once
// Arguments that a role of the mixture-of-experts kernels gets from its kernel: its place, and a delay for tests. A
// role assumes nothing else about its CTA, so that one kernel may hold the roles of several.

#include <cstdint>

#include "ops/moe/device/parameters.hpp"

namespace xstage::kernels {

__device__ inline std::int32_t lane_index() { return static_cast<std::int32_t>(threadIdx.x % 32U); }

/// This warp's number in the CTA, by a shuffle that tells the compiler that all lanes agree on it.
__device__ inline std::int32_t warp_index() {
  return __shfl_sync(0xFFFFFFFFU, static_cast<std::int32_t>(threadIdx.x / 32U), 0);
}

/// The dynamic shared memory of the CTA from that byte on. Its address is a constant wherever it is needed, so that no
/// register keeps it.
template <class Type>
[[nodiscard]] __device__ inline Type* role_shared(std::int32_t offset) {
  extern __shared__ __align__(1024) char dynamic_shared[];
  return reinterpret_cast<Type*>(dynamic_shared + offset);
}

struct RolePlace {
  std::int32_t first_warp;  // first of the role's warps in the CTA; they are contiguous
  std::int32_t warps;
  std::int32_t warp;     // number of this warp among them; the same in all lanes
  std::int32_t barrier;  // number of the CTA's barrier that only this role uses
  std::int32_t
      shared_offset;   // where the memory that the kernel's roles share begins in that of the CTA, on 1024 bytes
  std::int32_t block;  // number of this CTA among those that run the role on this rank
  std::int32_t blocks;

  [[nodiscard]] __device__ std::int32_t threads() const { return 32 * warps; }
  [[nodiscard]] __device__ std::int32_t thread() const {
    return static_cast<std::int32_t>(threadIdx.x) - 32 * first_warp;
  }
  /// Barrier of all warps of the role.
  __device__ void synchronise() const { asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads()) : "memory"); }
  /// The place of some of these warps, from `first` on, for roles whose warps do not synchronise.
  [[nodiscard]] __device__ RolePlace part(std::int32_t first, std::int32_t count) const {
    RolePlace place = *this;
    place.first_warp += first;
    place.warps = count;
    place.warp -= first;
    return place;
  }
};

/// No delay, in kernels for users.
struct NoMoeDelay {
  __device__ NoMoeDelay(const MoeDelays&, const RolePlace&) {}
  __device__ void operator()() {}
};

/// Random sleeps of a warp at every store, flag and wait of dispatch and combine, which expose errors of order. They
/// are compiled into a second instantiation of the kernels, for tests. One object serves a role of a warp, and all
/// lanes call it and sleep alike.
class RandomMoeDelay {
 public:
  __device__ RandomMoeDelay(const MoeDelays& delays, const RolePlace& place)
      : longest_ns_(delays.longest_ns),
        random_(delays.seed + static_cast<std::uint32_t>(place.block * 32 + place.warp) * 0x9E3779B9U) {}

  /// Sleeps in one call of four.
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
