#pragma once
// Device memory of the tiles that several CTAs share: who has which part, what the parts have found, and how many of
// them are finished. See schedule/attention_shares.hpp.

#include "kernels/attention/attention_parameters.hpp"
#include "node/cuda/device_memory.hpp"

namespace xstage::kernels {

class SplitTiles {
 public:
  SplitTiles() = default;
  /// Shares of that schedule for so many CTAs.
  SplitTiles(int device, const schedule::AttentionSchedule& schedule, int ctas, int head_dim);

  [[nodiscard]] AttentionSplit parameters() const;
  /// After a launch that gave up half-way; the device is idle.
  void clear() const;

 private:
  cuda::DeviceBuffer shares_;
  cuda::DeviceBuffer found_;
  cuda::DeviceBuffer counters_;
};

}  // namespace xstage::kernels
