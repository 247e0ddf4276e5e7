// The schedules of an MoE layer give the same tiles on the device as on the host, where their properties are tested.

#include <gtest/gtest.h>

#include <cstdint>
#include <tuple>
#include <vector>

#include "gpu/rank_support.hpp"
#include "ops/moe/expert_wave.hpp"
#include "ops/moe/interleaved.hpp"
#include "ops/moe/test/gpu/schedule_device.hpp"

namespace xstage::schedule_test {
namespace {

using gpu_test::Random;
using moe_test::DeviceSchedule;
using moe_test::schedule_on_device;
using moe_test::ScheduleKind;
using schedule::MoeTile;

auto fields_of(const MoeTile& tile) {
  return std::tuple(tile.linear, tile.expert, tile.block, tile.row, tile.rows, tile.column);
}

template <class Schedule>
void expect_same(ScheduleKind kind, const schedule::MoeTiling& tiling, const std::vector<std::int32_t>& counts,
                 std::int32_t parameter) {
  std::vector<std::int32_t> first_block(counts.size() + 1);
  const auto experts = static_cast<std::int32_t>(counts.size());
  schedule::MoeBlocks::sum(counts.data(), experts, tiling.block_rows, first_block.data());
  schedule::MoeBlocks blocks;
  blocks.start(counts.data(), first_block.data(), experts);
  Schedule on_host;
  on_host.start(tiling, blocks, parameter);
  const DeviceSchedule on_device = schedule_on_device(kind, tiling, counts, parameter);
  ASSERT_EQ(on_device.ring_blocks, on_host.ring_blocks());
  ASSERT_EQ(on_device.tiles.size(), static_cast<std::size_t>(on_host.tiles()));
  for (std::int32_t index = 0; index < on_host.tiles(); ++index) {
    ASSERT_EQ(fields_of(on_device.tiles[static_cast<std::size_t>(index)]), fields_of(on_host.tile(index)))
        << "tile " << index;
  }
}

TEST(MoeScheduleOnDevice, TheSameTilesAsOnTheHost) {
  SKIP_WITHOUT_HOPPER(1);
  Random random(900);
  for (int repetition = 0; repetition < 40; ++repetition) {
    schedule::MoeTiling tiling;
    tiling.start(random.of({32, 128}), random.between(1, 48), random.between(1, 56));
    std::vector<std::int32_t> counts(static_cast<std::size_t>(random.between(1, 256)));
    for (std::int32_t& count : counts) {
      count = random.of({0, 1, 127, 128, 129, random.between(0, 2000)});
    }
    const int parameter = random.between(1, 40);
    SCOPED_TRACE(testing::Message() << "repetition " << repetition << ", parameter " << parameter);
    expect_same<schedule::ExpertWave>(ScheduleKind::expert_wave, tiling, counts, parameter);
    expect_same<schedule::Interleaved>(ScheduleKind::interleaved, tiling, counts, parameter);
  }
}

}  // namespace
}  // namespace xstage::schedule_test
