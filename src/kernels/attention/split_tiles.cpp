#include "kernels/attention/split_tiles.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "kernels/attention/attention_layout.hpp"

namespace xstage::kernels {

SplitTiles::SplitTiles(int device, const schedule::AttentionSchedule& schedule, int ctas, int head_dim) {
  const cuda::CurrentDevice current(device);
  const std::vector<schedule::AttentionShare> shares = schedule::split_left_over(schedule, ctas);
  std::size_t slots = 1;
  std::size_t tiles = 1;
  for (const schedule::AttentionShare& share : shares) {
    slots = std::max(slots, static_cast<std::size_t>(share.first_slot) + static_cast<std::size_t>(share.parts));
    tiles = std::max(tiles, static_cast<std::size_t>(share.counter) + 1);
  }
  // Of one thread: its part of the output, and the maxima and sums of two rows.
  const std::size_t values = static_cast<std::size_t>(head_dim) / 2 + 4;
  shares_ = cuda::DeviceBuffer(device, shares.size() * sizeof(shares[0]), "shares of tiles");
  found_ = cuda::DeviceBuffer(device, slots * attend_warpgroups * 128 * values * sizeof(float), "parts of tiles");
  counters_ = cuda::DeviceBuffer(device, tiles * attend_warpgroups * sizeof(std::uint32_t), "counters of parts");
  cuda::check(cudaMemcpy(shares_.as<void>(), shares.data(), shares_.bytes(), cudaMemcpyHostToDevice),
              "copying shares of tiles");
  clear();
}

AttentionSplit SplitTiles::parameters() const {
  return {shares_.as<schedule::AttentionShare>(), found_.as<float>(), counters_.as<std::uint32_t>()};
}

void SplitTiles::clear() const {
  if (counters_.bytes() > 0) {
    cuda::check(cudaMemset(counters_.as<void>(), 0, counters_.bytes()), "clearing counters of parts");
  }
}

}  // namespace xstage::kernels
