#include "ops/moe/test/gpu/schedule_device.hpp"

#include <cuda_runtime_api.h>

#include "device/device_memory.hpp"
#include "ops/moe/expert_wave.hpp"
#include "ops/moe/interleaved.hpp"

namespace xstage::moe_test {

namespace {

using schedule::MoeBlocks;
using schedule::MoeTile;
using schedule::MoeTiling;

struct Counts {
  const std::int32_t* of_experts;
  std::int32_t* first_block;
  std::int32_t experts;
};

__global__ void sum_kernel(MoeTiling tiling, Counts counts) {
  MoeBlocks::sum(counts.of_experts, counts.experts, tiling.block_rows, counts.first_block);
}

template <class Schedule>
__global__ void tiles_kernel(MoeTiling tiling, Counts counts, std::int32_t parameter, MoeTile* tiles,
                             std::int32_t* ring_blocks) {
  MoeBlocks blocks;
  blocks.start(counts.of_experts, counts.first_block, counts.experts);
  Schedule schedule;
  schedule.start(tiling, blocks, parameter);
  const auto first = static_cast<std::int32_t>(blockIdx.x * blockDim.x + threadIdx.x);
  for (std::int32_t index = first; index < schedule.tiles();
       index += static_cast<std::int32_t>(gridDim.x * blockDim.x)) {
    tiles[index] = schedule.tile(index);
  }
  if (first == 0) {
    *ring_blocks = schedule.ring_blocks();
  }
}

}  // namespace

DeviceSchedule schedule_on_device(ScheduleKind kind, const MoeTiling& tiling, const std::vector<std::int32_t>& counts,
                                  std::int32_t parameter) {
  std::vector<std::int32_t> first_block(counts.size() + 1);
  MoeBlocks::sum(counts.data(), static_cast<std::int32_t>(counts.size()), tiling.block_rows, first_block.data());
  DeviceSchedule result;
  result.tiles.resize(static_cast<std::size_t>(first_block.back()) *
                      static_cast<std::size_t>(tiling.block_tiles.value()));
  const cuda::DeviceBuffer of_experts(0, counts.size() * sizeof(std::int32_t), "counts");
  const cuda::DeviceBuffer sums(0, first_block.size() * sizeof(std::int32_t), "first blocks");
  const cuda::DeviceBuffer tiles(0, (result.tiles.size() + 1) * sizeof(MoeTile), "tiles");
  const cuda::DeviceBuffer ring(0, sizeof(std::int32_t), "ring");
  const Counts on_device{of_experts.as<std::int32_t>(), sums.as<std::int32_t>(),
                         static_cast<std::int32_t>(counts.size())};
  cuda::check(cudaMemcpy(of_experts.as<void>(), counts.data(), of_experts.bytes(), cudaMemcpyHostToDevice), "counts");
  sum_kernel<<<1, 1>>>(tiling, on_device);
  auto* kernel =
      kind == ScheduleKind::expert_wave ? tiles_kernel<schedule::ExpertWave> : tiles_kernel<schedule::Interleaved>;
  kernel<<<4, 128>>>(tiling, on_device, parameter, tiles.as<MoeTile>(), ring.as<std::int32_t>());
  cuda::check(cudaGetLastError(), "launching a schedule");
  cuda::check(
      cudaMemcpy(result.tiles.data(), tiles.as<void>(), result.tiles.size() * sizeof(MoeTile), cudaMemcpyDeviceToHost),
      "reading tiles");
  cuda::check(cudaMemcpy(&result.ring_blocks, ring.as<void>(), sizeof(std::int32_t), cudaMemcpyDeviceToHost),
              "reading the ring");
  return result;
}

}  // namespace xstage::moe_test
