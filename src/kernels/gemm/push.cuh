#pragma once
// Warp 3 of the GEMM kernel, in an all-gather by stores: sends the own shard to every peer, piece by piece, in the order in
// which the peers' loaders need it.
//
//   own shard [rows, k]  --TMA-->  16 KiB of shared memory  --TMA-->  gathered operand of every peer, then the chunk's flag
//
// All CTAs share the pieces. One piece under way in each CTA is enough: 16 KiB in 3 microseconds from 132 CTAs is above
// what NVLink drains.

#include "kernels/gemm/gemm_context.cuh"
#include "kernels/gemm/loader.cuh"

namespace xstage::kernels {

/// Piece `number` of the own shard: k-chunks outside, then row chunks, inside a chunk rows before k.
struct PushPiece {
  std::int32_t row;
  std::int32_t depth;
  std::int32_t chunk;
  bool inside;
};

__device__ inline PushPiece push_piece(const GatherParameters& gather, std::int32_t number, std::int32_t rows,
                                       std::int32_t depth) {
  const std::int32_t row_blocks = gather.chunk_rows / gemm_tile_rows;
  const std::int32_t depth_blocks = gather.chunk_depth / gemm_tile_depth;
  const std::int32_t in_chunk = number % (row_blocks * depth_blocks);
  const std::int32_t order = number / (row_blocks * depth_blocks);
  const std::int32_t row_chunk = order % gather.row_chunks;
  const std::int32_t depth_chunk = order / gather.row_chunks;
  PushPiece piece;
  piece.row = row_chunk * gather.chunk_rows + in_chunk % row_blocks * gemm_tile_rows;
  piece.depth = depth_chunk * gather.chunk_depth + in_chunk / row_blocks * gemm_tile_depth;
  piece.chunk = row_chunk * gather.depth_chunks + depth_chunk;
  piece.inside = piece.row < rows && piece.depth < depth;
  return piece;
}

__device__ inline std::int32_t push_pieces(const GatherParameters& gather) {
  return gather.row_chunks * gather.depth_chunks * (gather.chunk_rows / gemm_tile_rows) *
         (gather.chunk_depth / gemm_tile_depth);
}

/// Stores the piece in shared memory to every peer and, when all have it, counts it there.
__device__ inline void send_piece(const GemmLaunch& launch, const GemmContext& context, std::uint32_t epoch,
                                  const PushPiece& piece) {
  const CUtensorMap* outputs = launch.gather_output[gather_buffer(launch, epoch)];
  for (std::int32_t step = 1; step < launch.world; ++step) {
    const std::int32_t peer = (launch.rank + step) % launch.world;
    cute::SM90_TMA_STORE_2D::copy(&outputs[peer], context.push, piece.depth, piece.row);
  }
  cute::tma_store_arrive();
  await_bulk_stores();
  fence_async_proxy();
  const GatherParameters& gather = launch.gather;
  const auto flag =
      static_cast<std::uint32_t>(launch.rank * gather.row_chunks * gather.depth_chunks + piece.chunk);
  for (std::int32_t step = 1; step < launch.world; ++step) {
    add_release(launch.signals[(launch.rank + step) % launch.world] + SignalPad::tile_flags + flag, 1U);
  }
}

template <class Probe>
__device__ inline void push_shard(const GemmLaunch& launch, const GemmContext& context) {
  if (launch.gather.push == 0 || launch.world == 1) {
    return;
  }
  Probe probe(launch.probe, context.probes, context.block, SpanRole::push);
  probe.start();
  constexpr auto keep = static_cast<std::uint64_t>(cute::TMA::CacheHintSm90::EVICT_NORMAL);
  std::uint32_t parity = 0;
  const std::uint32_t epoch = read_epoch(launch, context);
  await_peers_entry(launch, context, epoch, launch.gather.buffers == 2 ? 1U : 0U);
  for (std::int32_t number = context.block; number < push_pieces(launch.gather); number += context.blocks) {
    const PushPiece piece =
        push_piece(launch.gather, number, launch.own_rows, launch.depth_blocks * gemm_tile_depth);
    if (!piece.inside) {
      continue;
    }
    probe.begin();
    TransactionBarrier& pushed = context.barriers.pushed;
    pushed.arrive_and_expect_tx(push_bytes);
    cute::SM90_TMA_LOAD_2D::copy(&launch.push_input, reinterpret_cast<std::uint64_t*>(&pushed), keep, context.push,
                                 piece.depth, piece.row);
    pushed.wait(parity);
    parity ^= 1U;
    probe.delay();
    send_piece(launch, context, epoch, piece);
    probe.end(SpanKind::push_chunk, piece.chunk);
  }
}

}  // namespace xstage::kernels
