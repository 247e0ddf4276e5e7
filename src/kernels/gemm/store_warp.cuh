#pragma once
// Warps 1 and 2 of the GEMM kernel: results out, peers' partial tiles in, flags.

#include "kernels/gemm/epilogue.cuh"
#include "kernels/gemm/gemm_context.cuh"

namespace xstage::kernels {

/// Serves the staging chunks of one warpgroup. The ring of chunks is shared by results on their way out and, in a
/// reduction, partial sums on their way in; both sides count its uses in the same order.
template <int TileColumns, class Probe>
class StoreWarp {
 public:
  __device__ StoreWarp(const GemmContext& context, int half)
      : context_(context),
        half_(half),
        probe_(context.launch.probe, context.probes, context.block,
               half == 0 ? SpanRole::store_first : SpanRole::store_second) {
    probe_.start();
  }

  __device__ void run() {
    const GemmLaunch& launch = context_.launch;
    for (std::int32_t index = context_.cluster; index < launch.schedule.cluster_tiles(); index += context_.clusters) {
      const schedule::GemmTile tile = launch.schedule.tile(index, context_.rank_in_cluster);
      const GemmRegionTarget& target = launch.target[tile.region];
      number_ = index;
      if (target.signal_rank >= 0 || target.output_copies > 1) {
        if (!entered_) {
          await_peers_entry(context_, 0);
          entered_ = true;
        }
      }
      if (target.reduce != 0) {
        load_partials(tile);
      }
      store_tile(tile, target);
      if (target.signal_rank >= 0) {
        signal_tile(tile, target);
      }
    }
    finish();
  }

 private:
  static constexpr int chunks = TileColumns / chunk_columns;

  __device__ char* chunk(std::int32_t index) {
    return context_.staging + (half_ * context_.launch.staging + index) * chunk_bytes;
  }


  /// Sends the next staged chunk to every destination; frees the chunk before it.
  __device__ void store_chunk(const schedule::GemmTile& tile, const GemmRegionTarget& target, int index,
                              std::int32_t columns_before) {
    context_.barriers.staged[half_][used_.index].wait(staged_parity_.next(used_.index));
    probe_.delay();
    for (std::int32_t copy = 0; copy < target.output_copies; ++copy) {
      cute::SM90_TMA_STORE_2D::copy(&context_.launch.output[target.output_map + copy], chunk(used_.index),
                                    columns_before + index * chunk_columns, tile.row + 64 * half_);
    }
    cute::tma_store_arrive();
  }

  __device__ void free_chunk(std::int32_t index) { context_.barriers.vacant[half_][index].arrive(); }

  __device__ void store_tile(const schedule::GemmTile& tile, const GemmRegionTarget& target) {
    const std::int32_t shrink = context_.launch.epilogue.gated != 0 ? 2 : 1;
    std::int32_t before = -1;
    for (int index = 0; index < chunks / shrink; ++index) {
      store_chunk(tile, target, index, tile.column / shrink);
      if (index == 0) {
        probe_.begin();
      }
      if (before >= 0) {
        cute::tma_store_wait<1>();
        free_chunk(before);
      }
      before = used_.index;
      used_.advance(context_.launch.staging);
    }
    cute::tma_store_wait<0>();
    free_chunk(before);
    probe_.end(SpanKind::store_tile, number_);
  }

  /// Loads one chunk of one peer's partial tile into the next place of the ring.
  __device__ void load_partial(const schedule::GemmTile& tile, int index, std::int32_t peer) {
    const GemmLaunch& launch = context_.launch;
    constexpr auto once = static_cast<std::uint64_t>(cute::TMA::CacheHintSm90::EVICT_FIRST);
    context_.barriers.vacant[half_][used_.index].wait(used_.parity ^ 1U);
    const std::int32_t slot = peer < launch.rank ? peer : peer - 1;  // none for the own partial sums
    TransactionBarrier& loaded = context_.barriers.loaded[half_][used_.index];
    loaded.arrive_and_expect_tx(chunk_bytes);
    cute::SM90_TMA_LOAD_2D::copy(&launch.slots, reinterpret_cast<std::uint64_t*>(&loaded), once, chunk(used_.index),
                                 tile.column + index * chunk_columns,
                                 slot * launch.slot_rows + tile.row + 64 * half_);
    used_.advance(launch.staging);
  }

  __device__ void await_partials(const schedule::GemmTile& tile) {
    const GemmLaunch& launch = context_.launch;
    if (!tile.inside) {
      return;
    }
    probe_.begin();
    const schedule::GemmRegion& region = launch.schedule.region(tile.region);
    const std::int32_t tile_columns = launch.schedule.tiling().tile_columns;
    const auto flags_each = static_cast<std::uint32_t>((region.rows + gemm_tile_rows - 1) / gemm_tile_rows * 2 *
                                                       ((region.columns + tile_columns - 1) / tile_columns));
    const std::uint32_t flag = half_tile(launch.schedule, tile, half_);
    for (std::int32_t peer = 0; peer < launch.world; ++peer) {
      if (peer != launch.rank) {
        const std::uint32_t index = static_cast<std::uint32_t>(peer) * flags_each + flag;
        wait_at_least(context_.waits, {WaitSite::partial_tile, peer, index, context_.epoch},
                      own_signal(context_, SignalPad::tile_flags + index), context_.epoch);
      }
    }
    fence_async_proxy();
    probe_.end(SpanKind::wait_partial, number_);
  }

  /// The owner's tile: peers' partial tiles come into staging chunk by chunk, each chunk in rank order.
  __device__ void load_partials(const schedule::GemmTile& tile) {
    const GemmLaunch& launch = context_.launch;
    await_partials(tile);
    for (int index = 0; index < chunks; ++index) {
      for (std::int32_t peer = 0; peer < launch.world; ++peer) {
        if (peer != launch.rank) {
          load_partial(tile, index, peer);
        }
      }
    }
  }

  /// All stores of the half tile have been performed at their destination: only then may its flag leave.
  __device__ void signal_tile(const schedule::GemmTile& tile, const GemmRegionTarget& target) {
    probe_.begin();
    await_bulk_stores();
    probe_.end(SpanKind::store_arrival, number_);
    if (!tile.inside) {
      return;
    }
    fence_async_proxy();
    probe_.delay();
    std::uint32_t* flag = context_.launch.signals[target.signal_rank] + SignalPad::tile_flags + target.signal_begin +
                          half_tile(context_.launch.schedule, tile, half_);
    store_release(flag, context_.epoch);
  }

  /// Everything has left; tells the peers that expect results here.
  __device__ void finish() {
    await_bulk_stores();
    fence_async_proxy();
    const GemmLaunch& launch = context_.launch;
    if (launch.waits_done == 0) {
      return;
    }
    for (std::int32_t peer = 0; peer < launch.world; ++peer) {
      if (peer != launch.rank) {
        add_release(launch.signals[peer] + SignalPad::done + SignalPad::line * static_cast<std::uint32_t>(launch.rank),
                    1U);
      }
    }
  }

  const GemmContext& context_;
  const int half_;
  Probe probe_;
  RingPosition used_;  // place of the ring that comes next
  BarrierParities staged_parity_;
  bool entered_ = false;
  std::int32_t number_ = 0;
};

}  // namespace xstage::kernels
