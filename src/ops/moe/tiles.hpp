#pragma once
// The tiles of a rank's local experts, whose order the schedules in expert_wave.hpp and interleaved.hpp define. The
// same code runs in the kernel and in the CPU tests (design rule 3).
//
// The tokens of an expert are cut into M blocks. Blocks are numbered through all experts, and an expert without tokens
// has none. Their number is known only on the device, where the counts arrive; everything else is known on the host.
//
//                 Linear-1: 2 * intermediate     Linear-2: hidden
//   expert 0    block 0  | 0 | 1 | 2 | 3 |      | 0 | 1 | 2 | 3 | 4 | 5 |    a tile of Linear-2 needs all tiles of
//               block 1  | 0 | 1 | 2 | 3 |  ->  | 0 | 1 | 2 | 3 | 4 | 5 |    Linear-1 of its block
//   expert 2    block 2  | 0 | 1 | 2 | 3 |      | 0 | 1 | 2 | 3 | 4 | 5 |
//
// A schedule is a claim order: it maps index 0 to tiles() - 1 to a tile. CTAs draw indices from a counter, or take them
// in turn (CTA, CTA + CTAs, and so on). Results of Linear-1 live in a ring, each slot of which holds one block.

#include <cstdint>
#include <numeric>

#include "base/host_device.hpp"

namespace xstage::schedule {

/// Divides values below 2^31 by a number that the host knows: a multiplication and a shift.
class MoeDivisor {
 public:
  /// Called on the host, with a value of at least 1 and less than 2^16.
  void start(std::int32_t value) {
    value_ = static_cast<std::uint32_t>(value);
    shift_ = 31;
    while ((std::uint64_t{1} << (shift_ - 31)) < value_) {
      ++shift_;
    }
    // The factor is too large by less than 2^(shift - 31), which makes no quotient too large.
    factor_ = static_cast<std::uint32_t>(((std::uint64_t{1} << shift_) + value_ - 1) / value_);
  }

  XSTAGE_HOST_DEVICE std::int32_t value() const { return static_cast<std::int32_t>(value_); }
  XSTAGE_HOST_DEVICE std::int32_t quotient(std::int32_t dividend) const {
    return static_cast<std::int32_t>((std::uint64_t{static_cast<std::uint32_t>(dividend)} * factor_) >> shift_);
  }

 private:
  std::uint32_t value_;
  std::uint32_t factor_;
  std::uint32_t shift_;
};

/// The numbers of the tiles that the host knows.
struct MoeTiling {
  std::int32_t block_rows;
  MoeDivisor linear1_tiles;  // of a block
  MoeDivisor linear2_tiles;
  MoeDivisor block_tiles;    // of both
  std::int32_t step_offset;  // how far the mixture of an interleaved step is turned against that of the one before

  /// On the host.
  void start(std::int32_t rows, std::int32_t linear1, std::int32_t linear2) {
    block_rows = rows;
    linear1_tiles.start(linear1);
    linear2_tiles.start(linear2);
    block_tiles.start(linear1 + linear2);
    // The golden ratio spreads any number of consecutive steps evenly. Without a common divisor all offsets occur.
    step_offset = (block_tiles.value() * 618 + 500) / 1000;
    while (step_offset > 1 && std::gcd(block_tiles.value(), step_offset) > 1) {
      --step_offset;
    }
  }
};

enum class MoeLinear : std::int32_t { one = 1, two = 2 };

struct MoeTile {
  MoeLinear linear;
  std::int32_t expert;  // local
  std::int32_t block;   // of all experts
  std::int32_t row;     // first one, counted in the expert
  std::int32_t rows;    // with tokens: only the last block of an expert may have fewer than block_rows
  std::int32_t column;  // number of the tile in its block
};

/// Blocks of an expert that has `tokens`.
XSTAGE_HOST_DEVICE inline std::int32_t moe_blocks(std::int32_t tokens, std::int32_t block_rows) {
  return (tokens + block_rows - 1) / block_rows;
}

/// Largest number of blocks of `tokens` tokens, for any distribution over `experts`.
XSTAGE_HOST_DEVICE inline std::int32_t most_moe_blocks(std::int32_t tokens, std::int32_t experts,
                                                       std::int32_t block_rows) {
  const std::int32_t begun = tokens < experts ? tokens : experts;  // begun by one token each
  return begun + (tokens - begun) / block_rows;
}

/// The numbers that only the device knows: sums of the counts, made once in a launch.
class MoeBlocks {
 public:
  /// For one thread. A kernel should let a warp add up moe_blocks instead, which gives the same result. first_block[e]
  /// becomes the number of blocks of the experts before e, for e up to and including `experts`.
  XSTAGE_HOST_DEVICE static void sum(const std::int32_t* tokens, std::int32_t experts, std::int32_t block_rows,
                                     std::int32_t* first_block) {
    first_block[0] = 0;
    for (std::int32_t expert = 0; expert < experts; ++expert) {
      first_block[expert + 1] = first_block[expert] + moe_blocks(tokens[expert], block_rows);
    }
  }

  /// Both arrays are read for every tile, and should lie in shared memory if possible.
  XSTAGE_HOST_DEVICE void start(const std::int32_t* tokens, const std::int32_t* first_block, std::int32_t experts) {
    tokens_ = tokens;
    first_block_ = first_block;
    experts_ = experts;
  }

  XSTAGE_HOST_DEVICE std::int32_t experts() const { return experts_; }
  XSTAGE_HOST_DEVICE std::int32_t blocks() const { return first_block_[experts_]; }
  XSTAGE_HOST_DEVICE std::int32_t first_block(std::int32_t expert) const { return first_block_[expert]; }

  /// The expert of a block, by bisection: one load for each bit of the number of experts.
  XSTAGE_HOST_DEVICE std::int32_t expert_of(std::int32_t block) const {
    std::int32_t low = 0;
    std::int32_t count = experts_;
    while (count > 1) {
      const std::int32_t half = count / 2;
      low += first_block_[low + half] <= block ? half : 0;
      count -= half;
    }
    return low;
  }

  XSTAGE_HOST_DEVICE MoeTile tile(const MoeTiling& tiling, MoeLinear linear, std::int32_t block,
                                  std::int32_t column) const {
    MoeTile tile;
    tile.linear = linear;
    tile.expert = expert_of(block);
    tile.block = block;
    tile.row = (block - first_block_[tile.expert]) * tiling.block_rows;
    const std::int32_t left = tokens_[tile.expert] - tile.row;
    tile.rows = left < tiling.block_rows ? left : tiling.block_rows;
    tile.column = column;
    return tile;
  }

  /// Tile `index` of the blocks from `first` on, columns fastest: CTAs that work at the same time share weights and
  /// rows in L2, and a block is complete soon.
  XSTAGE_HOST_DEVICE MoeTile tile_from(const MoeTiling& tiling, MoeLinear linear, std::int32_t first,
                                       std::int32_t index) const {
    const MoeDivisor& columns = linear == MoeLinear::one ? tiling.linear1_tiles : tiling.linear2_tiles;
    const std::int32_t block = columns.quotient(index);
    return tile(tiling, linear, first + block, index - block * columns.value());
  }

 private:
  const std::int32_t* tokens_;
  const std::int32_t* first_block_;
  std::int32_t experts_;
};

}  // namespace xstage::schedule
