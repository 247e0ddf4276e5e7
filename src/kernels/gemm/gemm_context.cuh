#pragma once
// What all roles of the GEMM kernel share: rings, barriers, waits.

#include "kernels/common/bounded_wait.cuh"
#include "kernels/common/probe.cuh"
#include "kernels/gemm/gemm_parameters.hpp"
#include "kernels/gemm/main_loop.cuh"

namespace xstage::kernels {

/// Barriers of one CTA, behind the rings in shared memory.
struct GemmBarriers {
  TransactionBarrier full[max_stages];
  ArrivalBarrier empty[max_stages];
  TransactionBarrier loaded[2][max_staging];  // a peer's chunk is in staging
  ArrivalBarrier staged[2][max_staging];      // the warpgroup has written a chunk
  ArrivalBarrier vacant[2][max_staging];      // the chunk may be written again
  TransactionBarrier pushed;
};

/// What all roles of a CTA know.
struct GemmContext {
  const GemmLaunch& launch;
  char* ring;
  char* staging;  // [warpgroup, chunk]
  char* push;
  GemmBarriers& barriers;
  ProbeState* probes;
  WaitContext waits;
  std::uint32_t epoch;
  std::int32_t cluster;         // of this rank's clusters, the number of ours
  std::int32_t clusters;        // of this rank
  std::int32_t cluster_size;
  std::int32_t rank_in_cluster;
  std::int32_t block;           // of this rank's CTAs
  std::int32_t blocks;
};

__device__ inline std::uint32_t* own_signal(const GemmContext& context, std::uint32_t word) {
  return context.launch.signals[context.launch.rank] + word;
}

/// Flag of half a tile: 64 rows of one tile column.
__device__ inline std::uint32_t half_tile(const schedule::GemmSchedule& schedule, const schedule::GemmTile& tile,
                                          int half) {
  const schedule::GemmRegion& region = schedule.region(tile.region);
  const std::int32_t tile_columns = schedule.tiling().tile_columns;
  const std::int32_t columns = (region.columns + tile_columns - 1) / tile_columns;
  return static_cast<std::uint32_t>((tile.row / 64 + half) * columns + tile.column / tile_columns);
}

/// Before the first store of a call into peers' buffers: no peer may still read what an earlier call left there. A peer
/// that has entered call e has finished call e - 1; two alternating buffers leave one call more (`lag`).
__device__ inline void await_peers_entry(const GemmContext& context, std::uint32_t lag) {
  for (std::int32_t peer = 0; peer < context.launch.world; ++peer) {
    if (peer != context.launch.rank) {
      wait_at_least(context.waits, {WaitSite::peer_entry, peer, 0, context.epoch},
                    own_signal(context, SignalPad::entered + SignalPad::line * static_cast<std::uint32_t>(peer)),
                    context.epoch - lag);
    }
  }
}

/// Bulk stores of this thread have been performed, not only read their source.
__device__ inline void await_bulk_stores() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

}  // namespace xstage::kernels
