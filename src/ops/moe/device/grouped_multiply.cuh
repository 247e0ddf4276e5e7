#pragma once
// Two warpgroups of the grouped GEMM: they multiply, apply SwiGLU after Linear-1, then stage the result chunk by chunk.

#include "ops/moe/device/grouped_activation.cuh"
#include "ops/moe/device/grouped_shared.cuh"
#include "tile/epilogue.cuh"

namespace xstage::kernels {

/// Number of 64-column chunks in which half of this tile leaves; fewer where the last column of tiles is cut.
template <int TileColumns, bool Gated>
__device__ inline std::int32_t leaving_chunks(const GroupedLaunch& launch, std::int32_t column) {
  constexpr int tile_columns = Gated ? TileColumns / 2 : TileColumns;
  return min(tile_columns, launch.output_columns - column * tile_columns) / chunk_columns;
}

template <int TileColumns, bool Gated>
class GroupedMultiply {
 public:
  using Loop = MainLoop<TileColumns>;
  static constexpr std::size_t accumulators = Loop::accumulators;

  /// A role of one warpgroup: four warps from a multiple of four on. `half` is 0 for rows 0-63 of a block, 1 for the
  /// others.
  __device__ GroupedMultiply(const GroupedLaunch& launch, const RolePlace& place, int half)
      : launch_(launch),
        place_(place),
        cluster_(GroupedCluster::of(launch, place)),
        shared_(launch, place),
        half_(half) {}

  __device__ void run(std::int32_t tiles) {
    float accumulator[accumulators];
    const OperandRing ring = shared_.template ring<TileColumns>();
    std::uint32_t number = 0;
#pragma unroll 1
    for (std::int32_t index = cluster_.number; index < tiles; index += cluster_.count) {
      ring.full[position_.index].wait(position_.parity);
      const schedule::LinearTile& tile = shared_.tile(number);
      const std::int32_t leaving = leaving_chunks<TileColumns, Gated>(launch_, tile.column);
      if (tile.rows > half_rows * half_) {
        // Read before the main loop, needed behind it.
        float weights[2] = {};
        if constexpr (Gated) {
          read_weights(tile, weights);
        }
        Loop::multiply(accumulator, ring, position_, launch_.depth_blocks, half_, cluster_ctas());
        stage(accumulator, weights, leaving);
      } else {
        pass_over(ring);
        hand_over_nothing(leaving);
      }
      ++number;
    }
  }

 private:
  static constexpr std::int32_t half_rows = gemm_tile_rows / 2;
  static constexpr int chunks = (Gated ? TileColumns / 2 : TileColumns) / chunk_columns;

  [[nodiscard]] __device__ std::uint32_t cluster_ctas() const {
    return static_cast<std::uint32_t>(launch_.tiling.cluster);
  }

  /// Skips a tile in which all rows of this half are padding, which leaves the tensor cores and their power to others.
  /// One warp releases the stages and the others wait for it: a warp that is one round ahead or behind would wait for
  /// the wrong parity.
  __device__ void pass_over(const OperandRing& ring) {
    place_.synchronise();  // all warps have seen the stage of the tile's number
    RingPosition position = position_;
    const bool first_warp = place_.warp == 0;
#pragma unroll 1
    for (std::int32_t block = 0; block < launch_.depth_blocks; ++block) {
      if (first_warp) {
        ring.full[position.index].wait(position.parity);
        __syncwarp();
        Loop::release(ring.empty, position.index, cluster_ctas());
      }
      position.advance(ring.stages);
    }
    position_ = position;
    place_.synchronise();
  }

  /// Passes empty chunks to the store warp, which frees them without storing.
  __device__ void hand_over_nothing(std::int32_t leaving) {
#pragma unroll 1
    for (std::int32_t index = 0; index < leaving; ++index) {
      shared_.barriers().vacant[half_][used_.index].wait(used_.parity ^ 1U);
      const RingPosition first = used_;
      used_.advance(launch_.staging);
      hand_over(first, 1);
    }
  }

  /// Reads the router weights of this thread's rows. Rows behind an expert's last one have meaningless weights and
  /// results.
  __device__ void read_weights(const schedule::LinearTile& tile, float (&weights)[2]) const {
    const float* mine = launch_.router_weights + static_cast<std::int64_t>(tile.block) * gemm_tile_rows +
                        half_rows * half_ + 16 * place_.warp + lane_index() / 4;
    weights[0] = __ldg(mine);
    weights[1] = __ldg(mine + 8);
  }

  /// Stages the tile. One fence serves all chunks if all have a place. Otherwise each has its own: a batch must not
  /// need the place of a chunk that the store warp frees only after the batch has been passed on.
  __device__ void stage(const float (&accumulator)[accumulators], const float (&weights)[2], std::int32_t leaving) {
    const std::int32_t batch = launch_.staging >= leaving ? leaving : 1;
    RingPosition first = used_;
    std::int32_t waiting = 0;
#pragma unroll
    for (int index = 0; index < chunks; ++index) {
      if (index < leaving) {
        shared_.barriers().vacant[half_][used_.index].wait(used_.parity ^ 1U);
        finish_chunk(accumulator + static_cast<std::size_t>(index) * (Gated ? 2 : 1) * chunk_values, weights,
                     cute::cast_smem_ptr_to_uint(shared_.chunk(half_, used_.index)));
        used_.advance(launch_.staging);
        if (++waiting == batch || index == leaving - 1) {
          hand_over(first, waiting);
          first = used_;
          waiting = 0;
        }
      }
    }
  }

  /// Results of SwiGLU go into registers of their own: changing accumulators makes ptxas serialise WGMMA (C7515).
  __device__ void finish_chunk(const float* sums, const float (&weights)[2], std::uint32_t chunk) const {
    if constexpr (Gated) {
      float results[chunk_values];
      if (launch_.clamp > 0) {
        apply_swiglu<true>(sums, weights, launch_.clamp, results);
      } else {
        apply_swiglu<false>(sums, weights, 0, results);
      }
      stage_chunk(results, chunk);
    } else {
      stage_chunk(sums, chunk);
    }
  }

  /// Passes `count` chunks from `first` on to the store warp: makes them visible to the TMA unit, then arrives once for
  /// each warp.
  __device__ void hand_over(RingPosition first, std::int32_t count) const {
    cute::tma_store_fence();
    __syncwarp();
    if (lane_index() == 0) {
      for (std::int32_t chunk = 0; chunk < count; ++chunk) {
        shared_.barriers().staged[half_][first.index].arrive();
        first.advance(launch_.staging);
      }
    }
  }

  const GroupedLaunch& launch_;
  const RolePlace place_;
  const GroupedCluster cluster_;
  const GroupedShared shared_;
  const int half_;
  RingPosition position_;  // of the operand ring
  RingPosition used_;      // next place of the staging ring
};

}  // namespace xstage::kernels
