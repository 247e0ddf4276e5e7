#pragma once
// Warp 0 of the GEMM kernel: fills the ring of operands, and waits for rows that peers are still sending.

#include "kernels/gemm/gemm_context.cuh"

namespace xstage::kernels {

/// How many pieces the source pushes of a chunk, or the one flag that its copy engine sends.
__device__ inline std::uint32_t chunk_arrivals(const GemmLaunch& launch, std::int32_t shard_rows,
                                               std::int32_t row_chunk, std::int32_t depth_chunk) {
  const GatherParameters& gather = launch.gather;
  if (gather.push == 0) {
    return 1;
  }
  const std::int32_t rows = min(gather.chunk_rows, shard_rows - row_chunk * gather.chunk_rows);
  const std::int32_t blocks_each = gather.chunk_depth / gemm_tile_depth;
  const std::int32_t blocks = min(blocks_each, launch.depth_blocks - depth_chunk * blocks_each);
  return static_cast<std::uint32_t>((rows + push_rows - 1) / push_rows * blocks);
}

/// Flag of a chunk among this rank's, counted from the first chunk flag.
__device__ inline std::int32_t chunk_flag(const GemmLaunch& launch, const GemmRegionTarget& target,
                                          const schedule::GemmTile& tile, std::int32_t depth_chunk) {
  const GatherParameters& gather = launch.gather;
  return (target.gather_rank * gather.row_chunks + tile.row / gather.chunk_rows) * gather.depth_chunks + depth_chunk;
}

/// Waits for one chunk of the rows of a tile.
__device__ inline void wait_for_chunk(const GemmLaunch& launch, const GemmContext& context, std::uint32_t epoch,
                                      const GemmRegionTarget& target, const schedule::GemmTile& tile,
                                      std::int32_t depth_chunk) {
  const auto index = static_cast<std::uint32_t>(chunk_flag(launch, target, tile, depth_chunk));
  const std::uint32_t arrivals = chunk_arrivals(launch, launch.schedule.region(tile.region).rows,
                                                tile.row / launch.gather.chunk_rows, depth_chunk);
  wait_at_least(context.waits, {WaitSite::gathered_chunk, target.gather_rank, index, epoch},
                own_signal(launch, SignalPad::tile_flags + index), epoch * arrivals);
  fence_async_proxy();
}

/// Waits until the rows of a peer that this k-block needs have arrived; tells how many chunks along k have. A look
/// costs a microsecond, as long as the ring lasts, so one look takes in the next chunks, too.
__device__ inline std::int32_t wait_for_chunks(const GemmLaunch& launch, const GemmContext& context,
                                               std::uint32_t epoch, const GemmRegionTarget& target,
                                               const schedule::GemmTile& tile, std::int32_t depth_chunk) {
  constexpr int ahead = 8;
  const GatherParameters& gather = launch.gather;
  const std::int32_t shard_rows = launch.schedule.region(tile.region).rows;
  const std::int32_t row_chunk = tile.row / gather.chunk_rows;
  const std::int32_t index = chunk_flag(launch, target, tile, depth_chunk);
  const std::uint32_t* flags = own_signal(launch, SignalPad::tile_flags + static_cast<std::uint32_t>(index));
  std::uint32_t seen[ahead];
#pragma unroll
  for (int chunk = 0; chunk < ahead; ++chunk) {
    seen[chunk] = depth_chunk + chunk < gather.depth_chunks ? load_relaxed(flags + chunk) : 0U;
  }
  std::int32_t arrived = 0;
#pragma unroll
  for (int chunk = 0; chunk < ahead; ++chunk) {
    if (arrived == chunk && depth_chunk + chunk < gather.depth_chunks &&
        reached(seen[chunk], epoch * chunk_arrivals(launch, shard_rows, row_chunk, depth_chunk + chunk))) {
      ++arrived;
    }
  }
  if (arrived == 0) {
    wait_for_chunk(launch, context, epoch, target, tile, depth_chunk);
    return 1;
  }
  fence_acquire();
  fence_async_proxy();
  return arrived;
}

/// One stage: this CTA's share of both operands. What the cluster shares, each CTA loads half of and sends to both.
template <int TileColumns>
__device__ inline void load_stage(const GemmLaunch& launch, const GemmContext& context, const CUtensorMap* a,
                                  std::int32_t a_row, std::int32_t b_row, std::int32_t depth, TransactionBarrier* full,
                                  char* stage) {
  constexpr auto keep = static_cast<std::uint64_t>(cute::TMA::CacheHintSm90::EVICT_NORMAL);
  const CUtensorMap* b = &launch.b;
  auto* barrier = reinterpret_cast<std::uint64_t*>(full);
  char* b_stage = stage + Stage<TileColumns>::a_bytes;
  full->arrive_and_expect_tx(static_cast<std::uint32_t>(launch.stage_bytes));
  if (context.cluster_size == 1) {
    cute::SM90_TMA_LOAD_2D::copy(a, barrier, keep, stage, depth, a_row);
    cute::SM90_TMA_LOAD_2D::copy(b, barrier, keep, b_stage, depth, b_row);
    return;
  }
  constexpr std::uint16_t both = 3;
  const std::int32_t share = context.rank_in_cluster;
  if (launch.multicast_a != 0) {
    cute::SM90_TMA_LOAD_MULTICAST_2D::copy(a, barrier, both, keep, stage + share * (Stage<TileColumns>::a_bytes / 2),
                                           depth, a_row + share * (gemm_tile_rows / 2));
    cute::SM90_TMA_LOAD_2D::copy(b, barrier, keep, b_stage, depth, b_row);
  } else {
    cute::SM90_TMA_LOAD_2D::copy(a, barrier, keep, stage, depth, a_row);
    cute::SM90_TMA_LOAD_MULTICAST_2D::copy(b, barrier, both, keep, b_stage + share * (Stage<TileColumns>::b_bytes / 2),
                                           depth, b_row + share * (TileColumns / 2));
  }
}

/// The gathered operand of this call.
__device__ inline std::int32_t gather_buffer(const GemmLaunch& launch, std::uint32_t epoch) {
  return launch.gather.buffers == 2 ? static_cast<std::int32_t>(epoch & 1U) : 0;
}

/// Tiles of rows that arrive wait here, chunk by chunk along k.
class ArrivalGate {
 public:
  __device__ ArrivalGate(const GemmLaunch& launch, const GemmContext& context, std::uint32_t epoch)
      : launch_(launch), context_(context), epoch_(epoch) {}

  /// A CTA outside of the region loads for its cluster all the same, if its rows are inside.
  __device__ void begin_tile(const GemmRegionTarget& target, const schedule::GemmTile& tile, bool first) {
    arrives_ = target.gather_rank >= 0 && tile.row < launch_.schedule.region(tile.region).rows;
    watched_ = first;
    next_ = 0;
  }

  __device__ void pass(const GemmRegionTarget& target, const schedule::GemmTile& tile, std::int32_t depth) {
    if (!arrives_ || depth != next_) {
      return;
    }
    const std::int32_t chunk_depth = launch_.gather.chunk_depth;
    if (watched_) {
      // The other rows' store warp has nothing to store yet; it looks, this thread only reads shared memory.
      while (static_cast<std::int32_t>(load_acquire_shared(&context_.chunks_arrived)) <= depth / chunk_depth) {
      }
      next_ += chunk_depth;
    } else {
      next_ += chunk_depth * wait_for_chunks(launch_, context_, epoch_, target, tile, depth / chunk_depth);
    }
  }

 private:
  const GemmLaunch& launch_;
  const GemmContext& context_;
  const std::uint32_t epoch_;
  bool arrives_ = false;
  bool watched_ = false;
  std::int32_t next_ = 0;
};

template <int TileColumns, class Probe>
__device__ inline void load_operands(const GemmLaunch& launch, const GemmContext& context) {
  Probe probe(launch.probe, context.probes, context.block, SpanRole::loader);
  probe.start();
  RingPosition position;
  std::uint32_t number = 0;
  const std::uint32_t epoch = launch.gather.buffers > 0 ? read_epoch(context) : 0;
  ArrivalGate gate(launch, context, epoch);
  for (std::int32_t index = context.cluster; index < launch.schedule.cluster_tiles(); index += context.clusters) {
    const schedule::GemmTile tile = launch.schedule.tile(index, context.rank_in_cluster);
    const GemmRegionTarget& target = launch.target[tile.region];
    gate.begin_tile(target, tile, number == 0);
    context.tiles.tile[number++ % TileRing::places] = tile;  // published by the arrival at the first stage's barrier,
    asm volatile("" ::: "memory");                           // past which the compiler must not move it
    const CUtensorMap* a = target.a_map == 0 ? &launch.a : &launch.heap->gathered[gather_buffer(launch, epoch)];
    const std::int32_t a_row = target.a_row_begin + tile.row;
    const std::int32_t b_row = target.b_row_begin + tile.column;
    for (std::int32_t block = 0; block < launch.depth_blocks; ++block) {
      const std::int32_t depth = block * gemm_tile_depth;
      probe.delay();
      gate.pass(target, tile, depth);
      context.barriers.empty[position.index].wait(position.parity ^ 1U);
      load_stage<TileColumns>(launch, context, a, a_row, b_row, depth, &context.barriers.full[position.index],
                              context.ring + position.index * Stage<TileColumns>::bytes);
      position.advance(launch.stages);
    }
  }
}

}  // namespace xstage::kernels
