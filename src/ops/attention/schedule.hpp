#pragma once
// Which tile of an attention comes next. The same code runs in the kernel and in the CPU tests (design rule 3).
//
// A tile is some query rows of one head of one sequence. Its keys come in blocks, which are processed from the last to
// the first, so that the only block that may be partial or cut by the causal diagonal comes first.
//
//   full     row tiles fastest, then heads: CTAs that work at the same time read the same keys and values from L2. The
//            rows of other ranks come first, from the next one on, so that no two ranks store to the same peer at once;
//            then, for all heads, the own rows: the last tiles' stores, which nothing hides, are local ones.
//   causal   longest tiles first: the last row tile of every head, then the ones before them. CTAs draw the next index
//            when they have almost finished a tile, so that a CTA that had a short tile draws the longest one that is
//            left, and short tiles at the end even out the rest. Processing a few heads at a time, as many as L2 holds
//            keys and values of, was slower at all lengths. Tiles end with the last rows: the one that is not full is
//            the first of its head and begins before row 0. A last tile with 64 rows took as many blocks as a full one.
//
// Tiles that are left over for less than one round of all CTAs may be split along their keys, see shares.hpp.

#include <cstdint>

#include "base/host_device.hpp"

namespace xstage::schedule {

struct AttentionShape {
  std::int32_t sequences;  // batch
  std::int32_t rows;       // of queries in each sequence
  std::int32_t keys;       // in each sequence
  std::int32_t heads;      // of queries on this rank
  std::int32_t group;      // query heads that share one head of keys and values
  std::int32_t causal;     // 1: row i sees keys 0 to i
};

/// Tile shape, and the order in which tiles come.
struct AttentionTiling {
  std::int32_t tile_rows;
  std::int32_t block_keys;
  std::int32_t first_row_tile;  // full: first row tile of every head
  // Full: this many row tiles, the last ones from there on, come after all others of all heads.
  std::int32_t own_row_tiles;
  std::int32_t step_rows;  // causal: tiles begin at multiples of this, and tile_rows is one of them
};

/// Work of one CTA: key blocks [begin, end) of a tile.
struct AttentionTile {
  std::int32_t row;       // first query row; causal: that of a head's first tile is 0 or negative
  std::int32_t head;      // of queries
  std::int32_t key_head;  // of keys and values
  std::int32_t sequence;
  std::int32_t block_begin;
  std::int32_t block_end;
};

class AttentionSchedule {
 public:
  XSTAGE_HOST_DEVICE void start(const AttentionShape& shape, const AttentionTiling& tiling) {
    shape_ = shape;
    tiling_ = tiling;
    row_tiles_ = divide_up(shape.rows, tiling.tile_rows);
    key_blocks_ = divide_up(shape.keys, tiling.block_keys);
    first_row_ = 0;
    if (shape.causal != 0) {
      first_row_ = divide_up(shape.rows, tiling.step_rows) * tiling.step_rows - row_tiles_ * tiling.tile_rows;
    }
  }

  XSTAGE_HOST_DEVICE const AttentionShape& shape() const { return shape_; }
  XSTAGE_HOST_DEVICE const AttentionTiling& tiling() const { return tiling_; }
  XSTAGE_HOST_DEVICE std::int32_t key_blocks() const { return key_blocks_; }
  /// Valid indices of `tile` are 0 to this.
  XSTAGE_HOST_DEVICE std::int32_t tiles() const { return row_tiles_ * shape_.heads * shape_.sequences; }

  /// First index from which on tiles hold only this rank's own rows.
  XSTAGE_HOST_DEVICE std::int32_t first_own_tile() const {
    return shape_.causal != 0 ? tiles() : (row_tiles_ - tiling_.own_row_tiles) * shape_.heads * shape_.sequences;
  }

  XSTAGE_HOST_DEVICE AttentionTile tile(std::int32_t index) const {
    const Place place = shape_.causal != 0 ? causal_place(index) : full_place(index);
    AttentionTile tile;
    tile.sequence = place.line / shape_.heads;
    tile.head = place.line - tile.sequence * shape_.heads;
    tile.key_head = tile.head / shape_.group;
    tile.row = first_row_ + place.row_tile * tiling_.tile_rows;
    tile.block_begin = 0;
    tile.block_end = blocks_of_rows(tile.row + tiling_.tile_rows);
    return tile;
  }

  /// Key blocks to which rows before `row_end` attend.
  XSTAGE_HOST_DEVICE std::int32_t blocks_of_rows(std::int32_t row_end) const {
    if (shape_.causal == 0) {
      return key_blocks_;
    }
    const std::int32_t blocks = divide_up(row_end, tiling_.block_keys);
    return blocks < key_blocks_ ? blocks : key_blocks_;
  }

 private:
  struct Place {
    std::int32_t line;  // sequence * heads + head
    std::int32_t row_tile;
  };

  XSTAGE_HOST_DEVICE Place full_place(std::int32_t index) const {
    const std::int32_t lines = shape_.heads * shape_.sequences;
    std::int32_t first = 0;
    std::int32_t count = row_tiles_ - tiling_.own_row_tiles;
    if (index >= count * lines) {
      index -= count * lines;
      first = count;
      count = tiling_.own_row_tiles;
    }
    Place place;
    place.line = index / count;
    place.row_tile = first + index - place.line * count + tiling_.first_row_tile;
    if (place.row_tile >= row_tiles_) {
      place.row_tile -= row_tiles_;
    }
    return place;
  }

  XSTAGE_HOST_DEVICE Place causal_place(std::int32_t index) const {
    const std::int32_t lines = shape_.heads * shape_.sequences;
    const std::int32_t step = index / lines;
    return {index - step * lines, row_tiles_ - 1 - step};
  }

  XSTAGE_HOST_DEVICE static std::int32_t divide_up(std::int32_t value, std::int32_t by) {
    return (value + by - 1) / by;
  }

  AttentionShape shape_;
  AttentionTiling tiling_;
  std::int32_t row_tiles_;
  std::int32_t key_blocks_;
  std::int32_t first_row_;  // of the first row tile: 0 or negative
};

}  // namespace xstage::schedule
