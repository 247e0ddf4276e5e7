#pragma once
// Device memory of the tiles that several CTAs share: who has which part, what the parts have found, and how many of
// them are finished. See ops/attention/shares.hpp.

#include "device/handle_memory.hpp"
#include "ops/attention/device/parameters.hpp"

namespace xstage::kernels {

class SplitTiles {
 public:
  SplitTiles() = default;
  /// Shares of that schedule for so many CTAs, in the memory of a handle.
  SplitTiles(cuda::HandleMemory& memory, const schedule::AttentionSchedule& schedule, int ctas, int head_dim);

  [[nodiscard]] const AttentionSplit& parameters() const { return parameters_; }
  /// After a launch that gave up half-way, by DeviceSetup.
  void clear() const;

 private:
  AttentionSplit parameters_{};
  std::size_t counters_ = 0;
  int device_ = 0;
};

}  // namespace xstage::kernels
