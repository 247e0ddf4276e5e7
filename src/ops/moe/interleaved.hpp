#pragma once
// The interleaved schedule of an MoE layer, in which Linear-1 is `lead` M blocks ahead of Linear-2.
//
//   lead 2, five blocks    head              steps                                       rest
//   Linear-1 of            | 0     | 1     | 2          | 3          | 4          |
//   Linear-2 of                            | 0          | 1          | 2          | 3       | 4       |
//
// A step has all tiles of Linear-1 of one block and all tiles of Linear-2 of another, mixed evenly: after a tile of
// Linear-2, whose results leave the rank, come some of Linear-1, whose results stay. The mixture begins at another
// place in each step. Otherwise, when the number of CTAs is a multiple of a step's tiles, a CTA that takes its tiles in
// turn might get only Linear-2.
//
//   4 tiles of Linear-1, 6 of Linear-2      step 0   1 2 1 2 2 1 2 1 2 2       step 1   2 1 2 2 1 2 1 2 2 1
//
// A ring of lead + 1 slots suffices: a tile of Linear-1 then waits at most for Linear-2 of the step before. With
// `ring_without_waits` slots (lead.hpp) it does not wait at all.

#include <cstdint>

#include "ops/moe/tiles.hpp"

namespace xstage::schedule {

class Interleaved {
 public:
  /// `lead` at least 1.
  XSTAGE_HOST_DEVICE void start(const MoeTiling& tiling, const MoeBlocks& blocks, std::int32_t lead) {
    tiling_ = tiling;
    blocks_ = blocks;
    lead_ = lead;
    head_blocks_ = lead < blocks.blocks() ? lead : blocks.blocks();
  }

  XSTAGE_HOST_DEVICE const MoeTiling& tiling() const { return tiling_; }
  XSTAGE_HOST_DEVICE const MoeBlocks& blocks() const { return blocks_; }
  /// Number of tiles; valid indices of `tile` are less than this.
  XSTAGE_HOST_DEVICE std::int32_t tiles() const { return blocks_.blocks() * tiling_.block_tiles.value(); }

  XSTAGE_HOST_DEVICE MoeTile tile(std::int32_t index) const {
    const std::int32_t head = head_blocks_ * tiling_.linear1_tiles.value();
    if (index < head) {
      return blocks_.tile_from(tiling_, MoeLinear::one, 0, index);
    }
    index -= head;
    const std::int32_t steps = blocks_.blocks() - head_blocks_;
    const std::int32_t step = tiling_.block_tiles.quotient(index);
    if (step >= steps) {
      return blocks_.tile_from(tiling_, MoeLinear::two, steps, index - steps * tiling_.block_tiles.value());
    }
    return mixed_tile(step, index - step * tiling_.block_tiles.value());
  }

  /// Blocks whose results of Linear-1 are alive at once, which is the smallest ring.
  XSTAGE_HOST_DEVICE std::int32_t ring_blocks() const {
    return lead_ < blocks_.blocks() ? lead_ + 1 : blocks_.blocks();
  }

 private:
  /// Tile `place` of a step. Before it come floor((place * linear2 + offset) / all) tiles of Linear-2, where `offset`,
  /// between 0 and `all`, is the beginning of the step's mixture. The whole step has `linear2` of `all`, for any
  /// offset.
  XSTAGE_HOST_DEVICE MoeTile mixed_tile(std::int32_t step, std::int32_t place) const {
    const std::int32_t all = tiling_.block_tiles.value();
    const std::int32_t linear2 = tiling_.linear2_tiles.value();
    const std::int32_t turned = step * tiling_.step_offset;
    const std::int32_t offset = turned - tiling_.block_tiles.quotient(turned) * all;
    const std::int32_t sum = place * linear2 + offset;
    const std::int32_t before = tiling_.block_tiles.quotient(sum);
    if (sum - before * all + linear2 >= all) {
      return blocks_.tile(tiling_, MoeLinear::two, step, before);
    }
    return blocks_.tile(tiling_, MoeLinear::one, step + head_blocks_, place - before);
  }

  MoeTiling tiling_;
  MoeBlocks blocks_;
  std::int32_t lead_;
  std::int32_t head_blocks_;
};

}  // namespace xstage::schedule
