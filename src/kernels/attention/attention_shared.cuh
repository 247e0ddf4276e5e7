#pragma once
// Barriers and buffers of one CTA.

#include <cute/arch/config.hpp>
//
#include <cutlass/arch/barrier.h>
#include <cute/arch/util.hpp>

#include "kernels/attention/attention_parameters.hpp"
#include "kernels/attention/attention_tile.hpp"

namespace xstage::kernels {

using TransactionBarrier = cutlass::arch::ClusterTransactionBarrier;
using ArrivalBarrier = cutlass::arch::ClusterBarrier;

/// A ring of two stages: index and the parity of the current round.
struct StagePosition {
  std::uint32_t count = 0;

  [[nodiscard]] __device__ std::uint32_t index() const { return count % key_stages; }
  [[nodiscard]] __device__ std::uint32_t parity() const { return count / key_stages % 2U; }
  __device__ void advance() { ++count; }
};

struct AttentionBarriers {
  TransactionBarrier query_full;
  ArrivalBarrier query_empty;
  TransactionBarrier key_full[key_stages];
  ArrivalBarrier key_empty[key_stages];
  TransactionBarrier value_full[key_stages];
  ArrivalBarrier value_empty[key_stages];
  schedule::AttentionWork work;  // that the query tile belongs to; guarded by its two barriers
};

template <class Tile>
class AttentionShared {
 public:
  __device__ AttentionShared() {
    extern __shared__ char dynamic_shared[];
    const std::uint32_t begin = cute::cast_smem_ptr_to_uint(dynamic_shared);
    base_ = (begin + Tile::alignment - 1) / Tile::alignment * Tile::alignment;
    barriers_ = reinterpret_cast<AttentionBarriers*>(dynamic_shared + (base_ - begin) + Tile::barrier_offset);
    static_assert(sizeof(AttentionBarriers) <= Tile::barrier_bytes);
  }

  [[nodiscard]] __device__ AttentionBarriers& barriers() const { return *barriers_; }
  [[nodiscard]] __device__ std::uint32_t query(int warpgroup) const {
    return base_ + Tile::query_offset + static_cast<std::uint32_t>(warpgroup * 64 * 128);
  }
  [[nodiscard]] __device__ std::uint32_t key(std::uint32_t stage) const {
    return base_ + Tile::key_offset + stage * Tile::block_bytes;
  }
  [[nodiscard]] __device__ std::uint32_t value(std::uint32_t stage) const {
    return base_ + Tile::value_offset + stage * Tile::block_bytes;
  }
  /// [halves][64 rows][64] of one warpgroup
  [[nodiscard]] __device__ std::uint32_t staging(int warpgroup) const {
    return base_ + Tile::staging_offset + static_cast<std::uint32_t>(warpgroup * Tile::halves * Tile::staging_half_bytes);
  }

  __device__ void initialise(std::uint32_t cluster_size) const {
    AttentionBarriers& barriers = *barriers_;
    barriers.query_full.init(1);
    barriers.query_empty.init(Tile::warpgroups);
    for (int stage = 0; stage < key_stages; ++stage) {
      barriers.key_full[stage].init(1);
      barriers.key_empty[stage].init(Tile::warpgroups * cluster_size);
      barriers.value_full[stage].init(1);
      barriers.value_empty[stage].init(Tile::warpgroups * cluster_size);
    }
    cutlass::arch::fence_barrier_init();
  }

 private:
  std::uint32_t base_;
  AttentionBarriers* barriers_;
};

}  // namespace xstage::kernels
