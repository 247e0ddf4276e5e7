#pragma once
// Which chunk of an all-to-all a CTA moves next. The same class runs in the kernel and in the CPU tests (design rule
// 3).
//
// A chunk is some rows of one sequence that one rank owns, with all heads of this rank; of rows longer than a chunk it
// is some heads of one row. Either way it is contiguous in the input.
//
//   chunks of rank 1 of 4   | rows of rank 2 | rows of rank 3 | rows of rank 0 | own rows |
//                             no two ranks store to the same peer at once
//   CTAs                      [0, peer_blocks), each its multiples             [peer_blocks, blocks)

#include <cstdint>

#include "xstage/peer_view.hpp"

#include "base/host_device.hpp"

namespace xstage::schedule {

struct AllToAllShape {
  std::int32_t sequences;
  std::int32_t rows;   // in each sequence, of all ranks together
  std::int32_t heads;  // of this rank
  std::int32_t head_bytes;
  std::int32_t rank;
  std::int32_t world;
};

struct AllToAllTiling {
  std::int32_t chunk_rows;
  std::int32_t chunk_heads;  // fewer than the rank has: only where chunk_rows is 1
  std::int32_t blocks;       // CTAs
  std::int32_t peer_blocks;  // the first ones, which store to peers; if these are all CTAs, they copy the own rows, too
};

struct AllToAllChunk {
  std::int32_t destination;
  std::int32_t sequence;
  std::int32_t row;         // in the whole sequence
  std::int32_t owner_row;   // among those of the destination
  std::int32_t owner_rows;  // that the destination has in each sequence
  std::int32_t rows;
  std::int32_t head;  // of this rank
  std::int32_t heads;
};

/// The chunks of one CTA: first those for peers.
struct AllToAllShare {
  std::int32_t peer_chunks;
  std::int32_t chunks;  // all
  std::int32_t own_block;
};

class AllToAllSchedule {
 public:
  /// Called on the host.
  void start(const AllToAllShape& shape, const AllToAllTiling& tiling) {
    shape_ = shape;
    tiling_ = tiling;
    parts_ = divide_up(shape.heads, tiling.chunk_heads);
    own_begin_ = tiling.peer_blocks < tiling.blocks ? tiling.peer_blocks : 0;
    chunks_ = 0;
    const std::int32_t each = divide_up(shape.rows, shape.world);
    for (std::int32_t number = 0; number < shape.world; ++number) {
      Step& step = steps_[number];
      step.destination = (shape.rank + 1 + number) % shape.world;
      step.row_begin = least(shape.rows, each * step.destination);
      step.rows = least(shape.rows - step.row_begin, each);
      step.first_chunk = chunks_;
      step.chunks = divide_up(step.rows, tiling.chunk_rows) * parts_;
      chunks_ += step.chunks * shape.sequences;
    }
  }

  XSTAGE_HOST_DEVICE const AllToAllShape& shape() const { return shape_; }
  XSTAGE_HOST_DEVICE const AllToAllTiling& tiling() const { return tiling_; }
  /// All chunks of this rank.
  XSTAGE_HOST_DEVICE std::int32_t chunks() const { return chunks_; }
  XSTAGE_HOST_DEVICE std::int32_t peer_chunks() const { return steps_[shape_.world - 1].first_chunk; }

  XSTAGE_HOST_DEVICE AllToAllShare share(std::int32_t block) const {
    AllToAllShare share;
    share.peer_chunks = block < tiling_.peer_blocks ? multiples(peer_chunks(), block, tiling_.peer_blocks) : 0;
    share.own_block = block - own_begin_;
    share.chunks = share.peer_chunks;
    if (share.own_block >= 0) {
      share.chunks += multiples(chunks_ - peer_chunks(), share.own_block, tiling_.blocks - own_begin_);
    }
    return share;
  }

  /// Chunk `number` of a CTA's share.
  XSTAGE_HOST_DEVICE AllToAllChunk chunk(const AllToAllShare& share, std::int32_t block, std::int32_t number) const {
    if (number < share.peer_chunks) {
      return chunk(block + number * tiling_.peer_blocks);
    }
    const std::int32_t own = share.own_block + (number - share.peer_chunks) * (tiling_.blocks - own_begin_);
    return chunk(peer_chunks() + own);
  }

  /// Bytes from the beginning of the input to the chunk.
  XSTAGE_HOST_DEVICE std::int64_t source(const AllToAllChunk& chunk) const {
    const std::int64_t row = static_cast<std::int64_t>(chunk.sequence) * shape_.rows + chunk.row;
    return (row * shape_.heads + chunk.head) * shape_.head_bytes;
  }

  /// Bytes from the first row of the destination's result, at the first head of this rank, to the chunk.
  XSTAGE_HOST_DEVICE std::int64_t target(const AllToAllChunk& chunk) const {
    const std::int64_t row = static_cast<std::int64_t>(chunk.sequence) * chunk.owner_rows + chunk.owner_row;
    return row * pitch() + static_cast<std::int64_t>(chunk.head) * shape_.head_bytes;
  }

  /// Bytes from row to row of a result.
  XSTAGE_HOST_DEVICE std::int64_t pitch() const {
    return static_cast<std::int64_t>(shape_.heads) * shape_.world * shape_.head_bytes;
  }

  /// Bytes of one row of a chunk.
  XSTAGE_HOST_DEVICE std::int32_t row_bytes(const AllToAllChunk& chunk) const {
    return chunk.heads * shape_.head_bytes;
  }

 private:
  /// The chunks for one rank.
  struct Step {
    std::int32_t first_chunk;
    std::int32_t chunks;  // in each sequence
    std::int32_t destination;
    std::int32_t row_begin;
    std::int32_t rows;
  };

  XSTAGE_HOST_DEVICE AllToAllChunk chunk(std::int32_t index) const {
    std::int32_t number = 0;
    while (number + 1 < shape_.world && index >= steps_[number + 1].first_chunk) {
      ++number;
    }
    const Step& step = steps_[number];
    const std::int32_t in_step = index - step.first_chunk;
    const std::int32_t sequence = in_step / step.chunks;
    const std::int32_t in_sequence = in_step - sequence * step.chunks;
    const std::int32_t row_chunk = in_sequence / parts_;
    AllToAllChunk chunk;
    chunk.destination = step.destination;
    chunk.sequence = sequence;
    chunk.owner_row = row_chunk * tiling_.chunk_rows;
    chunk.owner_rows = step.rows;
    chunk.row = step.row_begin + chunk.owner_row;
    chunk.rows = least(tiling_.chunk_rows, step.rows - chunk.owner_row);
    chunk.head = (in_sequence - row_chunk * parts_) * tiling_.chunk_heads;
    chunk.heads = least(tiling_.chunk_heads, shape_.heads - chunk.head);
    return chunk;
  }

  XSTAGE_HOST_DEVICE static std::int32_t least(std::int32_t one, std::int32_t other) {
    return one < other ? one : other;
  }
  XSTAGE_HOST_DEVICE static std::int32_t divide_up(std::int32_t value, std::int32_t by) {
    return value / by + (value % by != 0 ? 1 : 0);
  }
  /// Number of values below `end` among first, first + every, first + 2 * every, ...
  XSTAGE_HOST_DEVICE static std::int32_t multiples(std::int32_t end, std::int32_t first, std::int32_t every) {
    return first < end ? (end - first - 1) / every + 1 : 0;
  }

  AllToAllShape shape_;
  AllToAllTiling tiling_;
  Step steps_[max_world];   // in the order in which they come, the own rows last
  std::int32_t chunks_;     // of this rank
  std::int32_t parts_;      // chunks of a row
  std::int32_t own_begin_;  // first CTA that copies own rows
};

}  // namespace xstage::schedule
