#pragma once
// Warp 3 of the GEMM kernel, in an all-gather by stores: it sends this rank's shard to every peer, piece by piece, in
// the order in which the peers' loaders need it. With at most two waves of tiles the arrival determines how long the
// call takes, and warp 1, which has nothing to store yet, pushes every other piece (Plan::push_warps).
//
//   own shard [rows, k]  --TMA-->  8 KiB of shared memory  --TMA-->  gathered operand of every peer, then its flag
//
// All CTAs share the pieces, 8 KiB each, at intervals that keep their sum below the drain rate. Pieces of 16 KiB
// without a pause made main loops 20% longer while the push lasted, because the loader's operands queued behind them.
// Between a piece's arrival and its flag lies a fence of 4 us, which queues behind the stores of all CTAs: one warp
// alone sends a piece every 5 us, 210 GB/s from 128 CTAs.

#include "ops/gemm/device/context.cuh"
#include "ops/gemm/device/loader.cuh"

namespace xstage::kernels {

/// Piece `number` of this rank's shard. The order is k-chunks outermost, then row chunks, and inside a chunk rows
/// before k.
struct PushPiece {
  std::int32_t number;
  std::int32_t row;
  std::int32_t depth;
  std::int32_t chunk;
};

__device__ inline std::int32_t push_pieces(const GatherParameters& gather) {
  return gather.row_chunks * gather.depth_chunks * (gather.chunk_rows / push_rows) *
         (gather.chunk_depth / gemm_tile_depth);
}

__device__ inline PushPiece push_piece(const GatherParameters& gather, std::int32_t number) {
  const std::int32_t row_blocks = gather.chunk_rows / push_rows;
  const std::int32_t depth_blocks = gather.chunk_depth / gemm_tile_depth;
  const std::int32_t in_chunk = number % (row_blocks * depth_blocks);
  const std::int32_t order = number / (row_blocks * depth_blocks);
  const std::int32_t row_chunk = order % gather.row_chunks;
  const std::int32_t depth_chunk = order / gather.row_chunks;
  return {number, row_chunk * gather.chunk_rows + in_chunk % row_blocks * push_rows,
          depth_chunk * gather.chunk_depth + in_chunk / row_blocks * gemm_tile_depth,
          row_chunk * gather.depth_chunks + depth_chunk};
}

/// One warp's share of the pieces of a CTA. A warp that pushes alone has two places in shared memory: one piece is
/// loaded while the other is stored. Two warps have one place each, and load the next piece when the one before has
/// been read; while one warp waits for the arrival of its piece, the other one sends.
template <class Probe>
class PushWarp {
 public:
  /// `which` is the number of the push warp in the CTA. Its spans appear in the track of `role`.
  __device__ PushWarp(const GemmLaunch& launch, const GemmPlace& place, std::int32_t which, SpanRole role)
      : launch_(launch),
        place_(place),
        shared_(launch),
        context_(shared_.context()),
        which_(which),
        probe_(shared_.probes(), role) {}

  /// Loads the first piece at once, since this rank's own shard is complete.
  __device__ void load_first() {
    first_ = next_inside(place_.block + which_ * place_.blocks);
    if (exists(first_)) {
      load(first_);
    }
  }

  /// Sends all pieces. A warp that pushes alone signals its first piece at once, since a peer may wait for it, and
  /// later ones in pairs.
  __device__ void run() {
    epoch_ = read_epoch(context_);
    fence_tensor_maps(launch_.heap->gather_output[gather_buffer(launch_, epoch_)], launch_.call.world);
    if (!call_of(launch_, place_).await_peers(epoch_, launch_.gather.buffers == 2 ? 1U : 0U)) {
      await_first_load();
      return;
    }
    take_turn();
    PushPiece piece = first_;
    for (std::int32_t together = 1; exists(piece); together = 3 - launch_.gather.push_warps) {
      piece = push_together(piece, together);
    }
  }

 private:
  /// Sends `most` pieces, 1 or 2, the first of which is loaded, and signals them when they have arrived. Returns the
  /// next piece.
  __device__ PushPiece push_together(const PushPiece& first, std::int32_t most) {
    probe_.begin();
    PushPiece following = send_next(first);
    const bool two = most == 2 && exists(following);
    const std::int32_t second_chunk = following.chunk;
    if (two) {
      following = send_next(following);
    }
    await_bulk_stores();
    probe_.end(SpanKind::push_chunk, first.chunk);
    fence_async_proxy();
    fence_release();
    count(first.chunk);
    if (two) {
      count(second_chunk);
    }
    return following;
  }

  /// Sends a loaded piece and loads the one after it.
  __device__ PushPiece send_next(const PushPiece& piece) {
    shared_.barriers().pushed[slot()].wait(launch_.gather.push_warps == 1 ? use_ / 2U % 2U : use_ % 2U);
    await_interval();
    send(piece);
    ++use_;
    const PushPiece following = next_inside(piece.number + launch_.gather.push_warps * place_.blocks);
    if (exists(following)) {
      if (launch_.gather.push_warps == 1) {
        cute::tma_store_wait<1>();  // the previous piece has left its place
      } else {
        cute::tma_store_wait<0>();
      }
      load(following);
    }
    return following;
  }

  /// Place of the next piece; a warp that pushes alone has both places.
  [[nodiscard]] __device__ std::uint32_t slot() const {
    return launch_.gather.push_warps == 1 ? use_ % 2U : static_cast<std::uint32_t>(which_);
  }

  /// The first piece from `number` on that this CTA pushes and that is not beyond the shard.
  __device__ PushPiece next_inside(std::int32_t number) const {
    const std::int32_t depth = launch_.depth_blocks * gemm_tile_depth;
    PushPiece piece = push_piece(launch_.gather, number);
    while (piece.number < push_pieces(launch_.gather) && (piece.row >= launch_.own_rows || piece.depth >= depth)) {
      piece = push_piece(launch_.gather, piece.number + launch_.gather.push_warps * place_.blocks);
    }
    return piece;
  }

  __device__ void load(const PushPiece& piece) {
    constexpr auto keep = static_cast<std::uint64_t>(cute::TMA::CacheHintSm90::EVICT_NORMAL);
    TransactionBarrier& pushed = shared_.barriers().pushed[slot()];
    pushed.arrive_and_expect_tx(push_piece_bytes);
    cute::SM90_TMA_LOAD_2D::copy(&launch_.push_input, reinterpret_cast<std::uint64_t*>(&pushed), keep,
                                 shared_.piece(slot()), piece.depth, piece.row);
  }

  /// Waits for the first load, since no CTA may end with a load in flight.
  __device__ void await_first_load() {
    if (exists(first_)) {
      shared_.barriers().pushed[slot()].wait(0);
    }
  }

  [[nodiscard]] __device__ bool exists(const PushPiece& piece) const {
    return piece.number < push_pieces(launch_.gather);
  }

  /// CTAs begin one after the other, in the order of their pieces. If all began at once, the first pieces of all CTAs
  /// would share the link, and the first chunk, which the peers wait for, would be as late as the last of these pieces.
  __device__ void take_turn() {
    const auto blocks = static_cast<std::uint64_t>(place_.blocks);
    const auto before = static_cast<std::uint64_t>(place_.block) + static_cast<std::uint64_t>(which_) * blocks;
    next_ns_ = global_nanoseconds() + launch_.push_interval_ns * before / blocks;
  }

  /// Keeps pieces below the drain rate; otherwise the operands of the same multiprocessor queue behind them.
  __device__ void await_interval() {
    while (global_nanoseconds() < next_ns_) {
    }
    next_ns_ = global_nanoseconds() + launch_.push_interval_ns * static_cast<std::uint64_t>(launch_.gather.push_warps);
  }

  __device__ void send(const PushPiece& piece) {
    const CUtensorMap* outputs = launch_.heap->gather_output[gather_buffer(launch_, epoch_)];
    probe_.delay();
    for (std::int32_t step = 1; step < launch_.call.world; ++step) {
      const std::int32_t peer = (launch_.call.rank + step) % launch_.call.world;
      cute::SM90_TMA_STORE_2D::copy(&outputs[peer], shared_.piece(slot()), piece.depth, piece.row);
    }
    cute::tma_store_arrive();
  }

  /// Signals all peers that a piece of this chunk has arrived.
  __device__ void count(std::int32_t chunk) {
    const GatherParameters& gather = launch_.gather;
    const auto flag = static_cast<std::uint32_t>(launch_.call.rank * gather.row_chunks * gather.depth_chunks + chunk);
    for (std::int32_t step = 1; step < launch_.call.world; ++step) {
      add_relaxed(launch_.call.signals[(launch_.call.rank + step) % launch_.call.world] + CallPad::arrivals + flag, 1U);
    }
  }

  const GemmLaunch& launch_;
  const GemmPlace place_;
  const SharedMemory shared_;
  const GemmContext& context_;
  const std::int32_t which_;
  Probe probe_;
  PushPiece first_{};
  std::uint32_t use_ = 0;  // pieces sent
  std::uint64_t next_ns_ = 0;
  std::uint32_t epoch_ = 0;
};

}  // namespace xstage::kernels
