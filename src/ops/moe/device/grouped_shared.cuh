#pragma once
// The shared memory of a CTA of the grouped GEMM, which its roles share:
//
//   operand ring | staging [warpgroup, chunk] | barriers | tiles | counts | first blocks
//
// Addresses are computed from the launch's parameters wherever they are needed, for the reason given at SharedMemory in
// ops/gemm/device/context.cuh. For the same reason numbers that roles read here and pass to TMA go through
// `same_in_warp`.

#include "ops/moe/device/grouped.hpp"
#include "ops/moe/device/role.cuh"
#include "tile/main_loop.cuh"

namespace xstage::kernels {

/// Tiles that the loader has begun, for all other roles.
struct LinearTileRing {
  static constexpr std::uint32_t places = 16;
  // Every tile needs at least one stage and one chunk, which bounds the loader's lead; each role may also hold one
  // tile.
  static_assert(places > most_grouped_stages + max_staging + 2);
  schedule::LinearTile tile[places];
};

struct GroupedBarriers {
  TransactionBarrier full[most_grouped_stages];
  ArrivalBarrier empty[most_grouped_stages];
  ArrivalBarrier staged[2][max_staging];  // the warpgroup has written a chunk
  ArrivalBarrier vacant[2][max_staging];  // the chunk may be written again
};

/// Position of a CTA among the clusters of the role.
struct GroupedCluster {
  std::int32_t number;
  std::int32_t count;
  std::int32_t rank;  // in the cluster

  [[nodiscard]] __device__ static GroupedCluster of(const GroupedLaunch& launch, const RolePlace& place) {
    if (launch.tiling.cluster == 1) {
      return {place.block, place.blocks, 0};
    }
    return {place.block / 2, place.blocks / 2, place.block % 2};
  }
};

/// Lane 0's value, by a shuffle that tells the compiler that the warp agrees on it. For converged warps.
__device__ inline std::int32_t same_in_warp(std::int32_t value) { return __shfl_sync(0xFFFFFFFFU, value, 0); }

__device__ inline schedule::LinearTile same_in_warp(const schedule::LinearTile& tile) {
  return {same_in_warp(tile.expert), same_in_warp(tile.block), same_in_warp(tile.rows), same_in_warp(tile.column),
          static_cast<schedule::LinearSharing>(same_in_warp(static_cast<std::int32_t>(tile.sharing)))};
}

class GroupedShared {
 public:
  __device__ GroupedShared(const GroupedLaunch& launch, const RolePlace& place)
      : launch_(launch), offset_(place.shared_offset) {}

  template <int TileColumns>
  [[nodiscard]] __device__ OperandRing ring() const {
    constexpr int a_bytes = Stage<TileColumns>::a_bytes;
    return {base(),          launch_.stage_bytes, 1, a_bytes / 2, a_bytes, a_bytes, launch_.stages,
            barriers().full, barriers().empty};
  }
  [[nodiscard]] __device__ char* chunk(int half, std::int32_t index) const {
    return base() + launch_.staging_offset + (half * launch_.staging + index) * chunk_bytes;
  }
  [[nodiscard]] __device__ GroupedBarriers& barriers() const { return *reinterpret_cast<GroupedBarriers*>(behind(0)); }
  [[nodiscard]] __device__ schedule::LinearTile& tile(std::uint32_t number) const {
    return reinterpret_cast<LinearTileRing*>(behind(tiles_offset))->tile[number % LinearTileRing::places];
  }
  [[nodiscard]] __device__ std::int32_t* counts() const {
    return reinterpret_cast<std::int32_t*>(behind(counts_offset));
  }
  [[nodiscard]] __device__ std::int32_t* first_block() const { return counts() + most_grouped_experts; }
  [[nodiscard]] __device__ schedule::LinearOrder order() const {
    return {launch_.tiling, counts(), first_block(), launch_.experts};
  }

 private:
  static constexpr int tiles_offset = sizeof(GroupedBarriers);
  static constexpr int counts_offset = tiles_offset + sizeof(LinearTileRing);
  static_assert(counts_offset + (2 * most_grouped_experts + 1) * 4 <= grouped_behind_bytes);

  [[nodiscard]] __device__ char* base() const { return role_shared<char>(offset_); }
  [[nodiscard]] __device__ char* behind(int offset) const { return base() + launch_.behind_offset + offset; }

  const GroupedLaunch& launch_;
  const std::int32_t offset_;
};

}  // namespace xstage::kernels
