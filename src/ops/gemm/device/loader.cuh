#pragma once
// Warp 0 of the GEMM kernel, one thread: it fills the ring of operands, and waits for rows that peers are still
// sending.

#include "ops/gemm/device/context.cuh"

namespace xstage::kernels {

/// Number of arrivals of a chunk: the pieces that the source pushes, or the one flag of its copy engine.
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

/// Number of a chunk's flag among this rank's chunk flags.
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
  wait_at_least(wait_context(launch.call), {WaitSite::gathered_chunk, target.gather_rank, index, epoch},
                own_signal(launch, CallPad::arrivals + index), epoch * arrivals);
  fence_async_proxy();
}

/// Waits until the rows of a peer that this k-block needs have arrived, and returns how many chunks along k have. A
/// poll costs a microsecond, which is as long as the ring lasts, so one poll covers the next chunks, too.
__device__ inline std::int32_t wait_for_chunks(const GemmLaunch& launch, const GemmContext& context,
                                               std::uint32_t epoch, const GemmRegionTarget& target,
                                               const schedule::GemmTile& tile, std::int32_t depth_chunk) {
  constexpr int ahead = 8;
  const GatherParameters& gather = launch.gather;
  const std::int32_t shard_rows = launch.schedule.region(tile.region).rows;
  const std::int32_t row_chunk = tile.row / gather.chunk_rows;
  const std::int32_t index = chunk_flag(launch, target, tile, depth_chunk);
  const std::uint32_t* flags = own_signal(launch, CallPad::arrivals + static_cast<std::uint32_t>(index));
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

/// Number of the gathered operand of this call.
__device__ inline std::int32_t gather_buffer(const GemmLaunch& launch, std::uint32_t epoch) {
  return launch.gather.buffers == 2 ? static_cast<std::int32_t>(epoch & 1U) : 0;
}

/// Makes tiles of arriving rows wait, chunk by chunk along k.
class ArrivalGate {
 public:
  __device__ ArrivalGate(const GemmLaunch& launch, const GemmContext& context) : launch_(launch), context_(context) {}

  /// Whether the rows of this tile arrive from a peer. A CTA whose columns lie outside of the region still loads for
  /// its cluster if its rows lie inside.
  __device__ bool begin_tile(const GemmRegionTarget& target, const schedule::GemmTile& tile, bool first) {
    watched_ = first;
    next_ = 0;
    return target.gather_rank >= 0 && tile.row < launch_.schedule.region(tile.region).rows;
  }

  __device__ void pass(const GemmRegionTarget& target, const schedule::GemmTile& tile, std::int32_t depth) {
    if (depth != next_) {
      return;
    }
    const std::int32_t chunk_depth = launch_.gather.chunk_depth;
    if (watched_) {
      // The store warp of rows 64-127 has nothing to store yet and polls the flags; this thread reads only shared
      // memory.
      while (static_cast<std::int32_t>(load_acquire_shared(&context_.chunks_arrived)) <= depth / chunk_depth) {
      }
      next_ += chunk_depth;
    } else {
      next_ +=
          chunk_depth * wait_for_chunks(launch_, context_, read_epoch(context_), target, tile, depth / chunk_depth);
    }
  }

 private:
  const GemmLaunch& launch_;
  const GemmContext& context_;
  bool watched_ = false;
  std::int32_t next_ = 0;
};

/// Source of one tile's operands.
struct TileOperands {
  const CUtensorMap* a;
  std::int32_t a_row;
  std::int32_t b_row;
};

/// Loads one stage: this CTA's share of both operands. Of operands that the cluster shares each CTA loads half and
/// sends it to both. Narrow tiles are multiplied in 0.13 us for each k-block, so that each read of a parameter counts:
/// parameters are kept in registers.
template <int TileColumns>
class StageLoads {
 public:
  __device__ StageLoads(const GemmLaunch& launch, std::int32_t rank_in_cluster)
      : b_(&launch.b),
        bytes_(static_cast<std::uint32_t>(launch.load_bytes)),
        blocks_(launch.stage_blocks),
        sharing_(sharing_of(launch)),
        b_offset_(launch.b_offset) {
    if (sharing_ == Sharing::a) {
      a_offset_ = rank_in_cluster * launch.a_half_bytes;
      a_rows_ = rank_in_cluster * (gemm_tile_rows / 2);
    } else if (sharing_ == Sharing::b) {
      b_offset_ += rank_in_cluster * (Stage<TileColumns>::b_bytes / 2);
      b_rows_ = rank_in_cluster * (TileColumns / 2);
    }
  }

  /// Loads stage `number` of a tile.
  __device__ void load(const TileOperands& operands, std::int32_t number, TransactionBarrier& full, char* stage) const {
    full.arrive_and_expect_tx(bytes_);
    if (MainLoop<TileColumns>::most_blocks > 1 && blocks_ > 1) {
      load_blocks(operands, number * blocks_, reinterpret_cast<std::uint64_t*>(&full), stage);
    } else {
      load_block(operands, number * gemm_tile_depth, reinterpret_cast<std::uint64_t*>(&full), stage);
    }
  }

 private:
  /// Loads several k-blocks from `block` on. B is then not shared between CTAs, since the halves of its rows would not
  /// be contiguous in shared memory.
  __device__ void load_blocks(const TileOperands& operands, std::int32_t block, std::uint64_t* barrier,
                              char* stage) const {
    if (sharing_ == Sharing::a) {
      cute::SM90_TMA_LOAD_MULTICAST_3D::copy(operands.a, barrier, both, keep, stage + a_offset_, 0,
                                             operands.a_row + a_rows_, block);
    } else {
      cute::SM90_TMA_LOAD_3D::copy(operands.a, barrier, keep, stage, 0, operands.a_row, block);
    }
    cute::SM90_TMA_LOAD_3D::copy(b_, barrier, keep, stage + b_offset_, 0, operands.b_row, block);
  }

  __device__ void load_block(const TileOperands& operands, std::int32_t depth, std::uint64_t* barrier,
                             char* stage) const {
    char* a = stage + a_offset_;
    char* b = stage + b_offset_;
    if (sharing_ == Sharing::a) {
      cute::SM90_TMA_LOAD_MULTICAST_2D::copy(operands.a, barrier, both, keep, a, depth, operands.a_row + a_rows_);
    } else {
      cute::SM90_TMA_LOAD_2D::copy(operands.a, barrier, keep, a, depth, operands.a_row);
    }
    if (sharing_ == Sharing::b) {
      cute::SM90_TMA_LOAD_MULTICAST_2D::copy(b_, barrier, both, keep, b, depth, operands.b_row + b_rows_);
    } else {
      cute::SM90_TMA_LOAD_2D::copy(b_, barrier, keep, b, depth, operands.b_row);
    }
  }

  enum class Sharing { none, a, b };

  __device__ static Sharing sharing_of(const GemmLaunch& launch) {
    if (launch.cluster_size == 1) {
      return Sharing::none;
    }
    return launch.multicast_a != 0 ? Sharing::a : Sharing::b;
  }

  static constexpr auto keep = static_cast<std::uint64_t>(cute::TMA::CacheHintSm90::EVICT_NORMAL);
  static constexpr std::uint16_t both = 3;

  const CUtensorMap* b_;
  const std::uint32_t bytes_;
  const std::int32_t blocks_;
  const Sharing sharing_;
  std::int32_t a_offset_ = 0;  // bytes in the stage
  std::int32_t a_rows_ = 0;    // of the tile
  std::int32_t b_offset_;
  std::int32_t b_rows_ = 0;
};

/// The loading thread. `first` is its first tile, if it has one.
template <int TileColumns, class Probe>
class Loader {
 public:
  __device__ Loader(const GemmLaunch& launch, const GemmPlace& place, const schedule::GemmTile& first)
      : launch_(launch),
        place_(place),
        first_(first),
        shared_(launch),
        loads_(launch, place.rank_in_cluster),
        ring_(shared_.ring()),
        tile_stages_(launch.tile_stages),
        probe_(shared_.probes(), SpanRole::loader) {}

  __device__ void run() {
    ArrivalGate gate(launch_, shared_.context());
    schedule::GemmTile tile = first_;
    std::int32_t number = 0;
#pragma unroll 1
    for (std::int32_t index = place_.cluster; index < launch_.schedule.cluster_tiles(); index += place_.clusters) {
      if (number > 0) {
        tile = launch_.schedule.tile(index, place_.rank_in_cluster);
      }
      shared_.tiles().tile[number % TileRing::places] = tile;  // published by the arrival at the first stage's barrier,
      asm volatile("" ::: "memory");                           // past which the compiler must not move it
      const GemmRegionTarget& target = launch_.target[tile.region];
      TileOperands operands{&launch_.a, target.a_row_begin + tile.row, target.b_row_begin + tile.column};
      if (number == 0) {
        await_kernel_before();
      }
      if (target.a_map != 0) {
        operands.a = gathered();
      }
      if (gate.begin_tile(target, tile, number == 0)) {
        load_arriving_tile(operands, gate, target, tile);
      } else {
        load_tile(operands);
      }
      ++number;
    }
    await_release_of_all();
  }

 private:
  /// The gathered operand of this call, into which peers' rows arrive.
  [[nodiscard]] __device__ const CUtensorMap* gathered() {
    const CUtensorMap* map = &launch_.heap->gathered[gather_buffer(launch_, read_epoch(shared_.context()))];
    if (!gathers_) {
      fence_tensor_map(map);
      gathers_ = true;
    }
    return map;
  }

  __device__ void load_stage(const TileOperands& operands, std::int32_t number) {
    ring_.empty[position_.index].wait(position_.parity ^ 1U);
    probe_.delay();
    loads_.load(operands, number, ring_.full[position_.index], ring_.stage(position_.index));
    position_.advance(ring_.stages);
  }

  __device__ void load_tile(const TileOperands& operands) {
#pragma unroll 1
    for (std::int32_t number = 0; number < tile_stages_; ++number) {
      load_stage(operands, number);
    }
  }

  /// Loads a tile of arriving rows, whose stages are single k-blocks.
  __device__ void load_arriving_tile(const TileOperands& operands, ArrivalGate& gate, const GemmRegionTarget& target,
                                     const schedule::GemmTile& tile) {
#pragma unroll 1
    for (std::int32_t number = 0; number < tile_stages_; ++number) {
      gate.pass(target, tile, number * gemm_tile_depth);
      load_stage(operands, number);
    }
  }

  /// Waits until the other CTA of the cluster no longer arrives at this one's barriers, which must exist until then.
  /// That avoids a barrier of the cluster at the end of the kernel, which would lengthen the call.
  __device__ void await_release_of_all() {
#pragma unroll 1
    for (std::int32_t stage = 0; stage < ring_.stages; ++stage) {
      ring_.empty[position_.index].wait(position_.parity ^ 1U);
      position_.advance(ring_.stages);
    }
  }

  const GemmLaunch& launch_;
  const GemmPlace place_;
  const schedule::GemmTile first_;
  const SharedMemory shared_;
  const StageLoads<TileColumns> loads_;
  const OperandRing ring_;
  const std::int32_t tile_stages_;
  Probe probe_;
  RingPosition position_;
  bool gathers_ = false;
};

}  // namespace xstage::kernels
