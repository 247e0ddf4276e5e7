#pragma once
// Warp 0 of the grouped GEMM: it finds the tiles and fills the ring of operands.

#include "ops/moe/device/grouped_shared.cuh"

namespace xstage::kernels {

template <int TileColumns>
class GroupedLoader {
 public:
  __device__ GroupedLoader(const GroupedLaunch& launch, const RolePlace& place)
      : launch_(launch),
        cluster_(GroupedCluster::of(launch, place)),
        shared_(launch, place),
        ring_(shared_.ring<TileColumns>()),
        leader_(cute::elect_one_sync() != 0U) {}

  /// All lanes compute the tiles, because the compiler must know that the numbers for TMA are the same in all lanes;
  /// one lane loads.
  __device__ void run(std::int32_t tiles) {
    const schedule::LinearOrder order = shared_.order();
    std::uint32_t number = 0;
#pragma unroll 1
    for (std::int32_t index = cluster_.number; index < tiles; index += cluster_.count) {
      const schedule::LinearTile tile = same_in_warp(order.tile(index, cluster_.rank));
      if (leader_) {
        shared_.tile(number) = tile;    // published by the arrival at the first stage's barrier, past which the
        asm volatile("" ::: "memory");  // compiler must not move it
        load_tile(tile);
      }
      __syncwarp();
      ++number;
    }
    if (leader_) {
      await_release_of_all();
    }
  }

 private:
  using Sharing = schedule::LinearSharing;
  // No hint. "Evict first" for weights, which are read once, and "evict last" for rows, which all columns read, cost 3
  // to 8% where weights come from memory. Prefetching weights into L2 some k-blocks before their load was slower yet:
  // by 1% where products take the time, by a third where memory does.
  static constexpr auto l2_hint = static_cast<std::uint64_t>(cute::TMA::CacheHintSm90::EVICT_NORMAL);
  static constexpr std::uint16_t both = 3;
  static constexpr std::int32_t a_bytes = Stage<TileColumns>::a_bytes;
  static constexpr std::int32_t b_bytes = Stage<TileColumns>::b_bytes;

  /// Values that are the same for all stages of a tile.
  struct Source {
    const CUtensorMap* a;
    const CUtensorMap* b;
    std::int32_t a_row;
    std::int32_t b_row;
    std::int32_t a_offset;  // bytes in the stage
    std::int32_t b_offset;
    std::uint32_t bytes;  // bytes that arrive in this CTA's stage, from either CTA
    bool loads_a;
  };

  __device__ void load_tile(const schedule::LinearTile& tile) {
    switch (tile.sharing) {
      case Sharing::rows:
        return load_stages<Sharing::rows>(source<Sharing::rows>(tile));
      case Sharing::weights:
        return load_stages<Sharing::weights>(source<Sharing::weights>(tile));
      case Sharing::none:
        return load_stages<Sharing::none>(source<Sharing::none>(tile));
    }
  }

  template <Sharing Shared>
  [[nodiscard]] __device__ Source source(const schedule::LinearTile& tile) const {
    // No row of the second half has a token, and what the ring holds there is not multiplied.
    const bool half = tile.rows <= gemm_tile_rows / 2;
    Source source{};
    source.a = half || Shared == Sharing::rows ? &launch_.half_rows : &launch_.rows;
    source.b = Shared == Sharing::weights ? &launch_.half_weights : &launch_.weights;
    source.a_row = tile.block * gemm_tile_rows;
    source.b_row = tile.expert * launch_.columns + tile.column * TileColumns;
    source.b_offset = a_bytes;
    source.bytes = static_cast<std::uint32_t>(b_bytes + (half ? a_bytes / 2 : a_bytes));
    source.loads_a = true;
    if constexpr (Shared == Sharing::rows) {
      source.a_row += cluster_.rank * (gemm_tile_rows / 2);
      source.a_offset = cluster_.rank * (a_bytes / 2);
      source.loads_a = cluster_.rank == 0 || !half;
    } else if constexpr (Shared == Sharing::weights) {
      source.b_row += cluster_.rank * (TileColumns / 2);
      source.b_offset += cluster_.rank * (b_bytes / 2);
    }
    return source;
  }

  template <Sharing Shared>
  __device__ void load_stages(const Source& source) {
#pragma unroll 1
    for (std::int32_t block = 0; block < launch_.depth_blocks; ++block) {
      ring_.empty[position_.index].wait(position_.parity ^ 1U);
      TransactionBarrier& full = ring_.full[position_.index];
      full.arrive_and_expect_tx(source.bytes);
      load_stage<Shared>(source, block * gemm_tile_depth, reinterpret_cast<std::uint64_t*>(&full),
                         ring_.stage(position_.index));
      position_.advance(ring_.stages);
    }
  }

  /// Loads one stage. Of operands that the cluster shares each CTA loads half and sends it to both.
  template <Sharing Shared>
  __device__ static void load_stage(const Source& source, std::int32_t depth, std::uint64_t* barrier, char* stage) {
    char* a = stage + source.a_offset;
    char* b = stage + source.b_offset;
    if constexpr (Shared == Sharing::rows) {
      if (source.loads_a) {
        cute::SM90_TMA_LOAD_MULTICAST_2D::copy(source.a, barrier, both, l2_hint, a, depth, source.a_row);
      }
    } else {
      cute::SM90_TMA_LOAD_2D::copy(source.a, barrier, l2_hint, a, depth, source.a_row);
    }
    if constexpr (Shared == Sharing::weights) {
      cute::SM90_TMA_LOAD_MULTICAST_2D::copy(source.b, barrier, both, l2_hint, b, depth, source.b_row);
    } else {
      cute::SM90_TMA_LOAD_2D::copy(source.b, barrier, l2_hint, b, depth, source.b_row);
    }
  }

  /// Waits until the other CTA of the cluster no longer arrives at this one's barriers, which must exist until then.
  __device__ void await_release_of_all() {
#pragma unroll 1
    for (std::int32_t stage = 0; stage < ring_.stages; ++stage) {
      ring_.empty[position_.index].wait(position_.parity ^ 1U);
      position_.advance(ring_.stages);
    }
  }

  const GroupedLaunch& launch_;
  const GroupedCluster cluster_;
  const GroupedShared shared_;
  const OperandRing ring_;
  const bool leader_;
  RingPosition position_;
};

}  // namespace xstage::kernels
