#include "ops/attention/device/split_tiles.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "device/device_setup.hpp"
#include "ops/attention/device/layout.hpp"

namespace xstage::kernels {

SplitTiles::SplitTiles(cuda::HandleMemory& memory, const schedule::AttentionSchedule& schedule, int ctas, int head_dim)
    : device_(memory.device()) {
  const std::vector<schedule::AttentionShare> shares = schedule::split_left_over(schedule, ctas);
  std::size_t slots = 1;
  std::size_t tiles = 1;
  for (const schedule::AttentionShare& share : shares) {
    slots = std::max(slots, static_cast<std::size_t>(share.first_slot) + static_cast<std::size_t>(share.parts));
    tiles = std::max(tiles, static_cast<std::size_t>(share.counter) + 1);
  }
  // Values of one thread: its part of the output, and the maxima and sums of two rows.
  const std::size_t values = static_cast<std::size_t>(head_dim) / 2 + 4;
  auto* there = memory.take<schedule::AttentionShare>(shares.size(), "shares of tiles");
  counters_ = tiles * attend_warpgroups;
  parameters_ = {there, memory.take<float>(slots * attend_warpgroups * 128 * values, "parts of tiles"),
                 memory.take<std::uint32_t>(counters_, "counters of parts")};
  cuda::DeviceSetup& setup = cuda::DeviceSetup::of(device_);
  setup.copy(there, shares.data(), shares.size() * sizeof(shares[0]));
  clear();
  setup.wait();
}

void SplitTiles::clear() const {
  if (counters_ > 0) {
    cuda::DeviceSetup::of(device_).fill(parameters_.counters, 0x00, counters_ * sizeof(std::uint32_t));
  }
}

}  // namespace xstage::kernels
