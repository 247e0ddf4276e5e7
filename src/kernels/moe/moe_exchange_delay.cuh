#pragma once
// Random sleeps of warps at every store, flag and wait of dispatch and combine, which shake out wrong order. Compiled
// into a second instantiation of the kernels, for tests, and absent from the first.

#include <cstdint>

#include "kernels/moe/moe_exchange_parameters.hpp"

namespace xstage::kernels {

/// The product's kernels: nothing is compiled in.
struct NoMoeDelay {
  __device__ NoMoeDelay(const MoeDelays&, std::int32_t) {}
  __device__ void operator()() {}
};

/// One object a role of a warp. All lanes call and sleep alike.
class RandomMoeDelay {
 public:
  __device__ RandomMoeDelay(const MoeDelays& delays, std::int32_t block)
      : longest_ns_(delays.longest_ns),
        random_(delays.seed + (static_cast<std::uint32_t>(block) * 32U + threadIdx.x / 32U) * 0x9E3779B9U) {}

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
