#pragma once
// The schedules of an MoE layer as kernels run them: sums of counts and all tiles, computed on the device.

#include <cstdint>
#include <vector>

#include "ops/moe/tiles.hpp"

namespace xstage::moe_test {

enum class ScheduleKind { expert_wave, interleaved };

struct DeviceSchedule {
  std::vector<schedule::MoeTile> tiles;
  std::int32_t ring_blocks = 0;
};

/// Computes a schedule on the current device. `parameter` is the number of experts a wave, or the lead.
[[nodiscard]] DeviceSchedule schedule_on_device(ScheduleKind kind, const schedule::MoeTiling& tiling,
                                                const std::vector<std::int32_t>& counts, std::int32_t parameter);

}  // namespace xstage::moe_test
