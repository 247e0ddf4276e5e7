#pragma once
// State that all roles of the GEMM kernel share: rings, barriers, waits.

#include "device/tensor_map_fence.cuh"
#include "fabric/call.cuh"
#include "fabric/probe.cuh"
#include "ops/gemm/device/parameters.hpp"
#include "tile/main_loop.cuh"

namespace xstage::kernels {

/// Ring of tiles that the loader has begun, for the warpgroups that multiply them: its arithmetic is off their critical
/// path. The loader is ahead by at most one ring of stages, each of which is a tile if k is short.
struct TileRing {
  static constexpr std::uint32_t places = 32;
  static_assert(places > max_stages + 2);
  schedule::GemmTile tile[places];
};

/// Barriers of one CTA, behind the rings in shared memory.
struct GemmBarriers {
  TransactionBarrier full[max_stages];
  ArrivalBarrier empty[max_stages];
  TransactionBarrier loaded[2][max_staging];  // a peer's chunk is in staging
  ArrivalBarrier staged[2][max_staging];      // the warpgroup has written a chunk
  ArrivalBarrier vacant[2][max_staging];      // the chunk may be written again
  TransactionBarrier pushed[2];
};

/// Position of a CTA among the CTAs and clusters of its rank.
struct GemmPlace {
  std::int32_t block;
  std::int32_t blocks;
  std::int32_t cluster;
  std::int32_t clusters;
  std::int32_t rank_in_cluster;
};

__device__ inline GemmPlace place_of(const GemmLaunch& launch, std::int32_t block, std::int32_t blocks) {
  if (launch.cluster_size == 1) {
    return {block, blocks, block, blocks, 0};
  }
  return {block, blocks, block / 2, blocks / 2, block % 2};
}

/// Values that the roles of a CTA pass to each other, or rarely need. They lie in shared memory and not in registers:
/// helpers and multiplying warpgroups have very different register budgets, and a value that lives through both would
/// be spilled by the smaller one.
struct GemmContext {
  std::uint32_t epoch;  // number of this call, valid when epoch_known is 1
  std::uint32_t epoch_known;
  std::uint32_t chunks_arrived;  // along k, of the rows of this CTA's first tile; written by a store warp
  std::uint32_t may_exchange;    // 1: peers have emptied the slots of this call; 2: a wait of the exchange was given up
};

/// The shared memory of a CTA:
///
///   operand ring | staging [warpgroup, chunk] | pieces of a pushed shard | barriers | tiles | context | probes
///
/// Where no CTA has more than one tile, staging lies over the ring, which is free once that tile is multiplied.
///
/// Addresses are computed from the launch's parameters wherever they are needed, so that the compiler knows that all
/// threads of a warp agree on them. A value read from shared memory may, for the compiler, differ between threads; it
/// is then passed to TMA and WGMMA through a loop over threads with six moves each, and a k-block took 0.4 us, whatever
/// its size.
class SharedMemory {
 public:
  __device__ explicit SharedMemory(const GemmLaunch& launch) : launch_(launch) {}

  [[nodiscard]] __device__ OperandRing ring() const {
    return {base(),           launch_.stage_bytes, launch_.stage_blocks, launch_.a_half_bytes, launch_.a_block_bytes,
            launch_.b_offset, launch_.stages,      barriers().full,      barriers().empty};
  }
  [[nodiscard]] __device__ char* chunk(int half, std::int32_t index) const {
    return base() + launch_.staging_offset + (half * launch_.staging + index) * chunk_bytes;
  }
  [[nodiscard]] __device__ char* piece(std::uint32_t index) const {
    return base() + launch_.push_offset + index * push_piece_bytes;
  }
  [[nodiscard]] __device__ GemmBarriers& barriers() const { return *reinterpret_cast<GemmBarriers*>(behind(0)); }
  [[nodiscard]] __device__ TileRing& tiles() const { return *reinterpret_cast<TileRing*>(behind(tiles_offset)); }
  [[nodiscard]] __device__ GemmContext& context() const {
    return *reinterpret_cast<GemmContext*>(behind(context_offset));
  }
  [[nodiscard]] __device__ ProbeState* probes() const { return reinterpret_cast<ProbeState*>(behind(probes_offset)); }

 private:
  static constexpr int tiles_offset = sizeof(GemmBarriers);
  static constexpr int context_offset = tiles_offset + sizeof(TileRing);
  static constexpr int probes_offset = context_offset + sizeof(GemmContext);
  static_assert(probes_offset + span_roles * sizeof(ProbeState) <= behind_rings_bytes);

  [[nodiscard]] __device__ static char* base() {
    extern __shared__ __align__(1024) char shared[];
    return shared;
  }
  [[nodiscard]] __device__ char* behind(int offset) const { return base() + launch_.barriers_offset + offset; }

  const GemmLaunch& launch_;
};

__device__ inline std::uint32_t* own_signal(const GemmLaunch& launch, std::uint32_t word) {
  return launch.call.signals[launch.call.rank] + word;
}

/// Whether test(peer) holds for all other ranks, in rank order; it is not called after the first failure.
template <class Test>
__device__ inline bool every_peer(const GemmLaunch& launch, Test&& test) {
#pragma unroll 1
  for (std::int32_t peer = 0; peer < launch.call.world; ++peer) {
    if (peer != launch.call.rank && !test(peer)) {
      return false;
    }
  }
  return true;
}

/// Calls function(peer) for all other ranks, in rank order.
template <class Function>
__device__ inline void for_each_peer(const GemmLaunch& launch, Function&& function) {
  every_peer(launch, [&](std::int32_t peer) {
    function(peer);
    return true;
  });
}

/// The collective call that this launch is part of, see fabric/call.cuh.
__device__ inline CollectiveCall call_of(const GemmLaunch& launch, const GemmPlace& place) {
  return {launch.call, place.block};
}

/// Number of the flag of half a tile: 64 rows of one tile column.
__device__ inline std::uint32_t half_tile(const schedule::GemmSchedule& schedule, const schedule::GemmTile& tile,
                                          int half) {
  const schedule::GemmRegion& region = schedule.region(tile.region);
  const std::int32_t tile_columns = schedule.tiling().tile_columns;
  const std::int32_t columns = (region.columns + tile_columns - 1) / tile_columns;
  return static_cast<std::uint32_t>((tile.row / 64 + half) * columns + tile.column / tile_columns);
}

/// The number of this call, which one helper has read for all: a load from global memory at the end of a role's work
/// would lengthen the call by most of a microsecond.
__device__ inline std::uint32_t read_epoch(const GemmContext& context) {
  while (load_acquire_shared(&context.epoch_known) == 0U) {
  }
  return context.epoch;
}

/// A programmatic launch overlaps with the kernel before it in the stream, so a role calls this before it accesses
/// memory that the kernel may use. Each role calls it as late as possible, and computes its first tile before.
__device__ inline void await_kernel_before() { cudaGridDependencySynchronize(); }

}  // namespace xstage::kernels
