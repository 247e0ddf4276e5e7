#pragma once
// Who computes which part of an attention: the same class for kernel and tests (design rule 3).
//
// A tile is 128 query rows of one head of one sequence; its keys come in blocks. CTAs take tiles in rounds: in one round
// they work on neighbouring tiles, row blocks fastest, so that they read the same keys at the same time from L2.

#include <cstdint>

#ifdef __CUDACC__
#define XSTAGE_HOST_DEVICE __host__ __device__
#else
#define XSTAGE_HOST_DEVICE
#endif

namespace xstage::schedule {

struct AttentionShape {
  std::int32_t sequences;  // batch
  std::int32_t rows;       // of queries in each sequence
  std::int32_t keys;       // in each sequence
  std::int32_t heads;      // of queries on this rank
  std::int32_t group;      // query heads that share one head of keys and values
  std::int32_t causal;     // 1: row i sees keys 0 to i
};

/// One piece of work for a CTA: key blocks [begin, end) of one tile, worked off from the last to the first.
struct AttentionWork {
  std::int32_t row;       // first query row of the tile
  std::int32_t head;      // of queries
  std::int32_t key_head;  // of keys and values
  std::int32_t sequence;
  std::int32_t block_begin;
  std::int32_t block_end;  // 0: no work left
};

class AttentionSchedule {
 public:
  XSTAGE_HOST_DEVICE void start(const AttentionShape& shape, std::int32_t tile_rows, std::int32_t block_keys,
                                std::int32_t cluster_size) {
    shape_ = shape;
    tile_rows_ = tile_rows;
    block_keys_ = block_keys;
    cluster_size_ = cluster_size;
    row_tiles_ = (shape.rows + tile_rows * cluster_size - 1) / (tile_rows * cluster_size);
    key_blocks_ = (shape.keys + block_keys - 1) / block_keys;
  }

  XSTAGE_HOST_DEVICE const AttentionShape& shape() const { return shape_; }
  XSTAGE_HOST_DEVICE std::int32_t tiles() const { return row_tiles_ * shape_.heads * shape_.sequences; }

  XSTAGE_HOST_DEVICE AttentionWork work(std::int32_t index, std::int32_t rank_in_cluster) const {
    AttentionWork work;
    work.block_begin = 0;
    work.block_end = 0;
    if (index >= tiles()) {
      return work;
    }
    const auto row_tiles = static_cast<std::uint32_t>(row_tiles_);
    const std::uint32_t head_index = static_cast<std::uint32_t>(index) / row_tiles;
    std::int32_t row_tile = index - static_cast<std::int32_t>(head_index * row_tiles);
    const std::uint32_t sequence = head_index / static_cast<std::uint32_t>(shape_.heads);
    work.sequence = static_cast<std::int32_t>(sequence);
    work.head = static_cast<std::int32_t>(head_index) - work.sequence * shape_.heads;
    work.key_head = static_cast<std::int32_t>(static_cast<std::uint32_t>(work.head) / static_cast<std::uint32_t>(shape_.group));
    if (shape_.causal != 0) {
      row_tile = row_tiles_ - 1 - row_tile;
    }
    work.row = (row_tile * cluster_size_ + rank_in_cluster) * tile_rows_;
    work.block_end = key_blocks_;
    if (shape_.causal != 0) {
      const std::int32_t seen = (row_tile + 1) * cluster_size_ * tile_rows_;
      const std::int32_t blocks = (seen + block_keys_ - 1) / block_keys_;
      work.block_end = blocks < key_blocks_ ? blocks : key_blocks_;
    }
    return work;
  }

 private:
  AttentionShape shape_;
  std::int32_t tile_rows_;
  std::int32_t block_keys_;
  std::int32_t cluster_size_;
  std::int32_t row_tiles_;
  std::int32_t key_blocks_;
};

}  // namespace xstage::schedule
