#pragma once
// Two warps of the grouped GEMM: each stores the chunks that one multiplying warpgroup has staged.

#include "ops/moe/device/grouped_multiply.cuh"

namespace xstage::kernels {

template <int TileColumns, bool Gated>
class GroupedStore {
 public:
  /// Warp 0 of the role's two stores the upper half of a block's rows.
  __device__ GroupedStore(const GroupedLaunch& launch, const RolePlace& place)
      : launch_(launch),
        cluster_(GroupedCluster::of(launch, place)),
        shared_(launch, place),
        half_(place.warp),
        leader_(cute::elect_one_sync() != 0U) {}

  /// All lanes wait and read, because the compiler must know that the numbers for TMA are the same in all lanes; one
  /// lane stores.
  __device__ void run(std::int32_t tiles) {
    std::uint32_t number = 0;
#pragma unroll 1
    for (std::int32_t index = cluster_.number; index < tiles; index += cluster_.count) {
      // The tile can be read when its first chunk is there.
      await_staged();
      store_tile(same_in_warp(shared_.tile(number)));
      ++number;
    }
  }

 private:
  static constexpr int tile_columns = Gated ? TileColumns / 2 : TileColumns;

  __device__ void await_staged() const { shared_.barriers().staged[half_][used_.index].wait(used_.parity); }

  /// Stores a tile. A chunk is freed when the store of the next one is in flight.
  __device__ void store_tile(const schedule::LinearTile& tile) {
    const std::int32_t row = tile.block * gemm_tile_rows + 64 * half_;
    const bool has_rows = tile.rows > 64 * half_;  // otherwise all of them are padding
    std::int32_t column = tile.column * tile_columns;
    std::int32_t before = -1;
#pragma unroll 1
    for (std::int32_t left = leaving_chunks<TileColumns, Gated>(launch_, tile.column);;) {
      if (leader_) {
        if (has_rows) {
          cute::SM90_TMA_STORE_2D::copy(&launch_.output, shared_.chunk(half_, used_.index), column, row);
        }
        cute::tma_store_arrive();
        free_chunk<1>(before);
      }
      before = used_.index;
      used_.advance(launch_.staging);
      column += chunk_columns;
      if (--left == 0) {
        break;
      }
      if (launch_.staging == 1 && leader_) {
        free_chunk<0>(before);
        before = -1;
      }
      __syncwarp();
      await_staged();
    }
    if (leader_) {
      free_chunk<0>(before);
    }
    __syncwarp();
  }

  /// Frees chunk `index`, which has been read when at most `Under` later stores are in flight.
  template <int Under>
  __device__ void free_chunk(std::int32_t index) const {
    if (index >= 0) {
      cute::tma_store_wait<Under>();
      shared_.barriers().vacant[half_][index].arrive();
    }
  }

  const GroupedLaunch& launch_;
  const GroupedCluster cluster_;
  const GroupedShared shared_;
  const int half_;
  const bool leader_;
  RingPosition used_;  // next place of the staging ring
};

}  // namespace xstage::kernels
