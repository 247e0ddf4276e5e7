#pragma once
// The order of the tiles of one linear layer of a rank's local experts: of Linear-1 or Linear-2 as a kernel of its own.
// The same code runs in the kernel and in the CPU tests (design rule 3).
//
// CTAs work alone or in clusters of two. Of the operands that the two tiles of a cluster share, each CTA loads half and
// sends it to both:
//
//   two blocks of one expert, one column: they share the weights    the last block of an expert with an odd number of
//   +---+---+---+---+                                               blocks, two columns: they share the rows
//   | 0 | 2 | 4 | 6 |  CTA 0                                        +---+---+---+---+
//   | 0 | 2 | 4 | 6 |  CTA 1                                        | 8 | 8 | 9 | 9 |
//   | 1 | 3 | 5 | 7 |  CTA 0                                        +---+---+---+---+
//   | 1 | 3 | 5 | 7 |  CTA 1                                         CTA 0   1   0   1
//
// In both cases a block takes half as many cluster tiles as it has columns, whatever the counts, so that the first
// cluster tile of an expert follows from its first block. The number of columns must be even; otherwise CTAs work
// alone.
//
// Inside an expert, tiles come in groups of rows, with rows fastest. Weights then come from memory once for all rows of
// a group, and the rows of a group stay in L2 while its columns are computed. The columns of an expert with one block
// are neighbours.

#include <cstdint>

#include "ops/moe/tiles.hpp"

namespace xstage::schedule {

/// The numbers that the host knows.
struct LinearTiling {
  std::int32_t block_rows;
  std::int32_t columns;       // tiles of a block
  std::int32_t cluster;       // CTAs: 1 or 2
  std::int32_t pairs_blocks;  // 1: clusters take two blocks where they can, 0: always two columns
  std::int32_t group;         // rows of cluster tiles that are computed together
  MoeDivisor block_tiles;     // cluster tiles of a block
  MoeDivisor pair_group;      // cluster tiles of a whole group of pairs of blocks
  MoeDivisor block_group;     // and of one of blocks

  /// Called on the host. With two CTAs in a cluster `tiles` is even. group * tiles is less than 2^16.
  void start(std::int32_t rows, std::int32_t tiles, std::int32_t ctas, bool pair_blocks, std::int32_t group_rows) {
    block_rows = rows;
    columns = tiles;
    cluster = ctas;
    pairs_blocks = ctas == 2 && pair_blocks ? 1 : 0;
    group = group_rows;
    block_tiles.start(tiles / ctas);
    pair_group.start(group_rows * tiles);
    block_group.start(group_rows * (tiles / ctas));
  }
};

/// The operand that the two CTAs of a cluster share.
enum class LinearSharing : std::int32_t { none, rows, weights };

/// One tile of one CTA.
struct LinearTile {
  std::int32_t expert;  // local
  std::int32_t block;   // of all experts
  std::int32_t rows;    // rows that have tokens
  std::int32_t column;  // number of the tile in its block
  LinearSharing sharing;
};

class LinearOrder {
 public:
  /// `tiling` must outlive this object; both arrays are read for every tile.
  XSTAGE_HOST_DEVICE LinearOrder(const LinearTiling& tiling, const std::int32_t* tokens,
                                 const std::int32_t* first_block, std::int32_t experts)
      : tiling_(tiling), tokens_(tokens) {
    blocks_.start(tokens, first_block, experts);
  }

  /// Number of cluster tiles; valid indices of `tile` are less than this.
  XSTAGE_HOST_DEVICE std::int32_t cluster_tiles() const { return blocks_.blocks() * tiling_.block_tiles.value(); }

  /// The tile that CTA `rank` of a cluster takes of cluster tile `index`.
  XSTAGE_HOST_DEVICE LinearTile tile(std::int32_t index, std::int32_t rank) const {
    LinearTile tile;
    tile.expert = blocks_.expert_of(tiling_.block_tiles.quotient(index));
    const std::int32_t first = blocks_.first_block(tile.expert);
    const std::int32_t blocks = blocks_.first_block(tile.expert + 1) - first;
    const std::int32_t in_expert = index - first * tiling_.block_tiles.value();
    const std::int32_t pairs = tiling_.pairs_blocks != 0 ? blocks / 2 : 0;
    std::int32_t block = 0;
    if (in_expert < pairs * tiling_.columns) {
      const Place place = place_in(in_expert, pairs, tiling_.pair_group);
      block = 2 * place.row + rank;
      tile.column = place.column;
      tile.sharing = LinearSharing::weights;
    } else {
      const Place place = place_in(in_expert - pairs * tiling_.columns, blocks - 2 * pairs, tiling_.block_group);
      block = 2 * pairs + place.row;
      tile.column = place.column * tiling_.cluster + rank;
      tile.sharing = tiling_.cluster == 2 ? LinearSharing::rows : LinearSharing::none;
    }
    tile.block = first + block;
    const std::int32_t left = tokens_[tile.expert] - block * tiling_.block_rows;
    tile.rows = left < tiling_.block_rows ? left : tiling_.block_rows;
    return tile;
  }

 private:
  struct Place {
    std::int32_t row;
    std::int32_t column;
  };

  /// Place `index` of a grid with `rows` rows, in groups, rows fastest. `group_tiles` is the number of tiles of a whole
  /// group.
  XSTAGE_HOST_DEVICE Place place_in(std::int32_t index, std::int32_t rows, const MoeDivisor& group_tiles) const {
    const std::int32_t group = group_tiles.quotient(index);
    const std::int32_t first_row = group * tiling_.group;
    const std::int32_t rows_left = rows - first_row;
    const std::int32_t rows_here = rows_left < tiling_.group ? rows_left : tiling_.group;
    const auto in_group = static_cast<std::uint32_t>(index - group * group_tiles.value());
    const std::uint32_t column = in_group / static_cast<std::uint32_t>(rows_here);
    return {first_row + static_cast<std::int32_t>(in_group) - static_cast<std::int32_t>(column) * rows_here,
            static_cast<std::int32_t>(column)};
  }

  const LinearTiling& tiling_;
  const std::int32_t* tokens_;
  MoeBlocks blocks_;
};

}  // namespace xstage::schedule
