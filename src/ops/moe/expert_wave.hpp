#pragma once
// The expert-wave schedule of an MoE layer: Linear-1 of some experts, then their Linear-2, then the next experts.
//
//   two experts a wave   | Linear-1 of 0, 1 | Linear-2 of 0, 1 | Linear-1 of 2, 3 | Linear-2 of 2, 3 | ...
//
// A ring of `ring_blocks()` slots holds the longest wave. With fewer slots a tile of Linear-1 would wait for a slot
// that only a tile of Linear-2 of its own wave frees, which is queued behind it.

#include <cstdint>

#include "ops/moe/tiles.hpp"

namespace xstage::schedule {

class ExpertWave {
 public:
  XSTAGE_HOST_DEVICE void start(const MoeTiling& tiling, const MoeBlocks& blocks, std::int32_t experts_per_wave) {
    tiling_ = tiling;
    blocks_ = blocks;
    experts_per_wave_ = experts_per_wave;
  }

  XSTAGE_HOST_DEVICE const MoeTiling& tiling() const { return tiling_; }
  XSTAGE_HOST_DEVICE const MoeBlocks& blocks() const { return blocks_; }
  /// Number of tiles; valid indices of `tile` are less than this.
  XSTAGE_HOST_DEVICE std::int32_t tiles() const { return blocks_.blocks() * tiling_.block_tiles.value(); }

  XSTAGE_HOST_DEVICE MoeTile tile(std::int32_t index) const {
    // A wave has exactly the tiles of its blocks, so the wave of an index is the same as if whole blocks came one after
    // the other.
    const std::int32_t wave = blocks_.expert_of(tiling_.block_tiles.quotient(index)) / experts_per_wave_;
    const std::int32_t begin = blocks_.first_block(wave * experts_per_wave_);
    const std::int32_t linear1 = (blocks_.first_block(end_expert(wave)) - begin) * tiling_.linear1_tiles.value();
    index -= begin * tiling_.block_tiles.value();
    return index < linear1 ? blocks_.tile_from(tiling_, MoeLinear::one, begin, index)
                           : blocks_.tile_from(tiling_, MoeLinear::two, begin, index - linear1);
  }

  /// Blocks of the longest wave, which is the smallest ring.
  XSTAGE_HOST_DEVICE std::int32_t ring_blocks() const {
    std::int32_t most = 0;
    for (std::int32_t wave = 0; wave * experts_per_wave_ < blocks_.experts(); ++wave) {
      const std::int32_t here = blocks_.first_block(end_expert(wave)) - blocks_.first_block(wave * experts_per_wave_);
      most = here > most ? here : most;
    }
    return most;
  }

  /// A ring that suffices for any counts of a rank that gets at most `tokens` tokens, even if all of them belong to one
  /// wave.
  static std::int32_t most_ring_blocks(const MoeTiling& tiling, std::int32_t experts_per_wave, std::int32_t tokens) {
    return most_moe_blocks(tokens, experts_per_wave, tiling.block_rows);
  }

 private:
  XSTAGE_HOST_DEVICE std::int32_t end_expert(std::int32_t wave) const {
    const std::int32_t end = (wave + 1) * experts_per_wave_;
    return end < blocks_.experts() ? end : blocks_.experts();
  }

  MoeTiling tiling_;
  MoeBlocks blocks_;
  std::int32_t experts_per_wave_;
};

}  // namespace xstage::schedule
