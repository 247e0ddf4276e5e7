#pragma once
// Warps 1 and 2 of the GEMM kernel: they store results, load peers' partial tiles, and signal both.

#include "ops/gemm/device/context.cuh"
#include "ops/gemm/device/loader.cuh"
#include "tile/epilogue.cuh"

namespace xstage::kernels {

/// Serves the staging chunks of one warpgroup. Results on their way out and, in a reduction, partial sums on their way
/// in share the ring of chunks; the warp and the warpgroup count its uses in the same order.
template <int TileColumns, class Probe>
class StoreWarp {
 public:
  __device__ StoreWarp(const GemmLaunch& launch, const GemmPlace& place, int half)
      : launch_(launch),
        place_(place),
        shared_(launch),
        context_(shared_.context()),
        half_(half),
        probe_(shared_.probes(), half == 0 ? SpanRole::store_first : SpanRole::store_second) {}

  __device__ void run() {
    if (launch_.call.world > 1) {
      epoch_ = read_epoch(context_);
    }
    fence_heap_maps();
    const std::int32_t tiles = half_ < launch_.warpgroups ? launch_.schedule.cluster_tiles() : 0;
    for (std::int32_t index = place_.cluster; index < tiles; index += place_.clusters) {
      const schedule::GemmTile tile = launch_.schedule.tile(index, place_.rank_in_cluster);
      const GemmRegionTarget& target = launch_.target[tile.region];
      number_ = index;
      if (half_ == 1 && index == place_.cluster && target.gather_rank >= 0) {
        watch_arrivals(tile, target);
      }
      if (!entered_ && (target.signal_rank >= 0 || target.output_copies > 1)) {
        gave_up_ = !call_of(launch_, place_).await_peers(epoch_);
        entered_ = true;
      }
      if (half_ == 0 && target.exchange != 0 && context_.may_exchange == 0U) {
        const bool emptied = call_of(launch_, place_).await_peers(epoch_, 1);
        store_release_shared(&context_.may_exchange, emptied ? 1U : 2U);
      }
      move_tile(tile, target);
    }
    finish();
  }

 private:
  static constexpr int chunks = TileColumns / chunk_columns;

  __device__ char* chunk(std::int32_t index) { return shared_.chunk(half_, index); }

  /// Runs while the first tile is multiplied.
  __device__ void fence_heap_maps() const {
    if (launch_.heap_outputs > 0) {
      fence_tensor_maps(launch_.heap->output, launch_.heap_outputs);
      fence_tensor_map(&launch_.heap->slots);
    }
  }

  /// Polls the flags of the first tile's rows for the loader, whose ring has no microsecond to spare for it.
  __device__ void watch_arrivals(const schedule::GemmTile& tile, const GemmRegionTarget& target) {
    const bool arrives = tile.row < launch_.schedule.region(tile.region).rows;
    for (std::int32_t chunk = 0; arrives && chunk < launch_.gather.depth_chunks; ++chunk) {
      probe_.begin();
      wait_for_chunk(launch_, context_, epoch_, target, tile, chunk);
      probe_.end(SpanKind::wait_chunk, number_);
      store_release_shared(&context_.chunks_arrived, static_cast<std::uint32_t>(chunk + 1));
    }
  }

  __device__ void move_tile(const schedule::GemmTile& tile, const GemmRegionTarget& target) {
    if (target.reduce != 0) {
      load_partials(tile, target);
    }
    store_tile(tile, target);
    if (target.signal_rank >= 0) {
      await_arrival();
      signal_tile(tile, target, target.signal_rank);
    }
  }

  [[nodiscard]] __device__ const CUtensorMap* destination(const GemmRegionTarget& target, std::int32_t copy) const {
    return target.local_output != 0 ? &launch_.output[target.output_map]
                                    : &launch_.heap->output[target.output_map + copy];
  }

  __device__ void free_chunk(std::int32_t index) { shared_.barriers().vacant[half_][index].arrive(); }

  /// First column of the tile in its output, and number of chunks that leave: both are halved behind a gate.
  [[nodiscard]] __device__ std::int32_t output_column(const schedule::GemmTile& tile) const {
    return tile.column >> launch_.epilogue.gated;
  }
  [[nodiscard]] __device__ std::int32_t leaving(std::int32_t chunks_of_tile) const {
    return chunks_of_tile >> launch_.epilogue.gated;
  }

  /// Stores into local memory without pacing. A chunk is freed when the store of the next one is in flight.
  __device__ void store_locally(const schedule::GemmTile& tile, const GemmRegionTarget& target) {
    // Computed before the tile is staged, because these stores end a short call.
    const CUtensorMap* map = destination(target, 0);
    const std::int32_t row = tile.row + 64 * half_;
    std::int32_t column = output_column(tile);
    const std::int32_t end = column + leaving(chunks) * chunk_columns;
    std::int32_t before = -1;
#pragma unroll 1
    for (; column < end; column += chunk_columns) {
      shared_.barriers().staged[half_][used_.index].wait(staged_parity_.next(used_.index));
      probe_.delay();
      cute::SM90_TMA_STORE_2D::copy(map, chunk(used_.index), column, row);
      cute::tma_store_arrive();
      if (launch_.staging == 1) {
        cute::tma_store_wait<0>();
        free_chunk(used_.index);
      } else if (before >= 0) {
        cute::tma_store_wait<1>();
        free_chunk(before);
      }
      before = used_.index;
      used_.advance(launch_.staging);
    }
    cute::tma_store_wait<0>();
    if (launch_.staging > 1) {
      free_chunk(before);
    }
  }

  /// Stores some rows of a chunk to every destination, as one group of bulk stores.
  __device__ void store_rows_of_chunk(const schedule::GemmTile& tile, const GemmRegionTarget& target,
                                      std::int32_t first_row, std::int32_t column) {
    const char* source = chunk(used_.index) + first_row * chunk_columns * 2;
    const std::int32_t row = tile.row + 64 * half_ + first_row;
#pragma unroll 1
    for (std::int32_t copy = 0; copy < target.output_copies; ++copy) {
      cute::SM90_TMA_STORE_2D::copy(destination(target, copy), source, column, row);
    }
    cute::tma_store_arrive();
  }

  /// Stores into a peer's memory, in small groups, spread over time. A tile's 64 KiB at once would fill the X-Stage,
  /// and this multiprocessor's own operand loads would queue behind them: the next main loop ran 40% longer.
  __device__ void store_remotely(const schedule::GemmTile& tile, const GemmRegionTarget& target) {
    const std::int32_t columns_each = target.wide != 0 && target.raw != 0 ? wide_chunk_columns : chunk_columns;
#pragma unroll 1
    for (std::int32_t index = 0; index < leaving(TileColumns / columns_each); ++index) {
      shared_.barriers().staged[half_][used_.index].wait(staged_parity_.next(used_.index));
      probe_.delay();
#pragma unroll 1
      for (std::int32_t row = 0; row < 64; row += launch_.store_rows) {
        if (gave_up_) {
          continue;  // the peer may still read the destination; rings go on, so that the CTA comes to its end
        }
        await_interval();
        store_rows_of_chunk(tile, target, row, output_column(tile) + index * columns_each);
        limit_outstanding();
      }
      cute::tma_store_wait<0>();
      free_chunk(used_.index);
      used_.advance(launch_.staging);
    }
  }

  /// Spreads the groups over time. At the full drain rate the X-Stage stays full, whatever the limit on outstanding
  /// stores, and loads wait behind it; at three quarters of it main loops are not delayed.
  __device__ void await_interval() {
    if (launch_.store_interval_ns == 0 || is_last_tile()) {
      return;
    }
    while (global_nanoseconds() < next_store_ns_) {
    }
    next_store_ns_ = global_nanoseconds() + launch_.store_interval_ns;
  }

  /// Whether this is the last tile, whose stores delay nothing.
  [[nodiscard]] __device__ bool is_last_tile() const {
    return number_ + place_.clusters >= launch_.schedule.cluster_tiles();
  }

  /// Waits until fewer than `window` groups are in flight; 0: no limit.
  __device__ void limit_outstanding() {
    switch (is_last_tile() ? 0 : launch_.window) {
      case 0:
        break;
      case 1:
        await_bulk_stores();
        break;
      case 2:
        asm volatile("cp.async.bulk.wait_group 1;" ::: "memory");
        break;
      default:
        asm volatile("cp.async.bulk.wait_group 3;" ::: "memory");
        break;
    }
  }

  __device__ void store_tile(const schedule::GemmTile& tile, const GemmRegionTarget& target) {
    probe_.begin();
    if (target.remote != 0) {
      store_remotely(tile, target);
    } else {
      store_locally(tile, target);
    }
    probe_.end(SpanKind::store_tile, number_);
  }

  /// Loads one chunk of one peer's partial tile into the next place of the ring.
  __device__ void load_partial(const schedule::GemmTile& tile, std::int32_t column, std::int32_t peer) {
    constexpr auto once = static_cast<std::uint64_t>(cute::TMA::CacheHintSm90::EVICT_FIRST);
    shared_.barriers().vacant[half_][used_.index].wait(used_.parity ^ 1U);
    const std::int32_t slot = peer < launch_.call.rank ? peer : peer - 1;  // this rank's own partial sums have no slot
    TransactionBarrier& loaded = shared_.barriers().loaded[half_][used_.index];
    loaded.arrive_and_expect_tx(chunk_bytes);
    cute::SM90_TMA_LOAD_2D::copy(&launch_.heap->slots, reinterpret_cast<std::uint64_t*>(&loaded), once,
                                 chunk(used_.index), column, slot * launch_.slot_rows + tile.row + 64 * half_);
    used_.advance(launch_.staging);
  }

  __device__ void await_partials(const schedule::GemmTile& tile) {
    if (!tile.inside) {
      return;
    }
    probe_.begin();
    const schedule::GemmRegion& region = launch_.schedule.region(tile.region);
    const std::int32_t tile_columns = launch_.schedule.tiling().tile_columns;
    const auto flags_each = static_cast<std::uint32_t>((region.rows + gemm_tile_rows - 1) / gemm_tile_rows * 2 *
                                                       ((region.columns + tile_columns - 1) / tile_columns));
    const std::uint32_t flag = half_tile(launch_.schedule, tile, half_);
    for_each_peer(launch_, [&](std::int32_t peer) {
      const std::uint32_t index = static_cast<std::uint32_t>(peer) * flags_each + flag;
      gave_up_ = !wait_at_least(wait_context(launch_.call), {WaitSite::partial_tile, peer, index, epoch_},
                                own_signal(launch_, CallPad::arrivals + index), epoch_) ||
                 gave_up_;
    });
    fence_async_proxy();
    probe_.end(SpanKind::wait_partial, number_);
  }

  /// Loads peers' partial tiles into staging for an own tile, chunk by chunk, and each chunk in rank order.
  __device__ void load_partials(const schedule::GemmTile& tile, const GemmRegionTarget& target) {
    await_partials(tile);
    const std::int32_t columns_each = target.wide != 0 ? wide_chunk_columns : chunk_columns;
    for (std::int32_t column = 0; column < TileColumns; column += columns_each) {
      for_each_peer(launch_, [&](std::int32_t peer) { load_partial(tile, tile.column + column, peer); });
    }
  }

  /// Waits until all stores of the half tile have been performed at their destination: only then may its flags be
  /// signalled.
  __device__ void await_arrival() {
    probe_.begin();
    await_bulk_stores();
    fence_async_proxy();
    probe_.end(SpanKind::store_arrival, number_);
    fence_release();
  }

  __device__ void signal_tile(const schedule::GemmTile& tile, const GemmRegionTarget& target, std::int32_t rank) {
    if (!tile.inside || gave_up_) {
      return;
    }
    probe_.delay();
    std::uint32_t* flag =
        launch_.call.signals[rank] + CallPad::arrivals + target.signal_begin + half_tile(launch_.schedule, tile, half_);
    store_relaxed(flag, epoch_);
  }

  /// Waits until all stores have left, and signals the peers that expect results from here.
  __device__ void finish() {
    if (launch_.waits_done == 0 || gave_up_) {
      return;  // the end of the kernel completes the stores; their source has been read
    }
    await_bulk_stores();
    fence_async_proxy();
    fence_release();
    call_of(launch_, place_).post_done();
  }

  const GemmLaunch& launch_;
  const GemmPlace place_;
  const SharedMemory shared_;
  GemmContext& context_;
  const int half_;
  Probe probe_;
  RingPosition used_;  // next place of the ring
  BarrierParities staged_parity_;
  std::uint64_t next_store_ns_ = 0;
  std::uint32_t epoch_ = 0;
  bool entered_ = false;
  bool gave_up_ = false;  // a wait gave up: nothing more goes to peers, who learn it from the abort word
  std::int32_t number_ = 0;
};

}  // namespace xstage::kernels
