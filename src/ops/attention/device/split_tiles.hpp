#pragma once
// Device memory of the tiles that several CTAs share: the parts of each CTA, their results, and the counts of finished
// parts. See ops/attention/shares.hpp.

#include "device/handle_memory.hpp"
#include "ops/attention/device/parameters.hpp"

namespace xstage::kernels {

class SplitTiles {
 public:
  SplitTiles() = default;
  /// Allocates the shares of a schedule for `ctas` CTAs in the memory of a handle.
  SplitTiles(cuda::HandleMemory& memory, const schedule::AttentionSchedule& schedule, int ctas, int head_dim);

  [[nodiscard]] const AttentionSplit& parameters() const { return parameters_; }
  /// Resets the counters by DeviceSetup, after a launch that gave up half-way.
  void clear() const;

 private:
  AttentionSplit parameters_{};
  std::size_t counters_ = 0;
  int device_ = 0;
};

}  // namespace xstage::kernels
