#pragma once
// One thread fetches queries, keys and values by TMA, and tells the multiplying warpgroups what they belong to.

#include <cute/arch/config.hpp>
//
#include <cute/arch/copy_sm90_tma.hpp>

#include "kernels/attention/attention_shared.cuh"

namespace xstage::kernels {

template <class Tile>
class AttentionLoader {
 public:
  __device__ AttentionLoader(const AttentionLaunch& launch, std::uint32_t cluster_rank)
      : launch_(launch), cluster_rank_(cluster_rank) {}

  __device__ void run(std::int32_t cluster, std::int32_t clusters) {
#pragma unroll 1
    for (std::int32_t index = cluster;; index += clusters) {
      const schedule::AttentionWork work = launch_.schedule.work(index, static_cast<std::int32_t>(cluster_rank_));
      announce(work);
      if (work.block_end == 0) {
        return;
      }
      load_keys(work, work.block_end - 1);
#pragma unroll 1
      for (std::int32_t key_block = work.block_end - 1; key_block > work.block_begin; --key_block) {
        load_keys(work, key_block - 1);
        load_values(work, key_block);
      }
      load_values(work, work.block_begin);
    }
  }

 private:
  __device__ void announce(const schedule::AttentionWork& work) {
    AttentionBarriers& barriers = shared_.barriers();
    barriers.query_empty.wait(query_parity_ ^ 1U);
    query_parity_ ^= 1U;
    barriers.work = work;
    if (work.block_end == 0) {
      barriers.query_full.arrive();
      return;
    }
    barriers.query_full.arrive_and_expect_tx(Tile::query_bytes);
    load(launch_.query, &barriers.query_full, shared_.query(0), work.row, work.head, work.sequence);
  }

  __device__ void load_keys(const schedule::AttentionWork& work, std::int32_t key_block) {
    AttentionBarriers& barriers = shared_.barriers();
    const std::uint32_t stage = key_position_.index();
    barriers.key_empty[stage].wait(key_position_.parity() ^ 1U);
    barriers.key_full[stage].arrive_and_expect_tx(Tile::block_bytes);
    load_block(launch_.key, &barriers.key_full[stage], shared_.key(stage), key_block, work);
    key_position_.advance();
  }

  __device__ void load_values(const schedule::AttentionWork& work, std::int32_t key_block) {
    AttentionBarriers& barriers = shared_.barriers();
    const std::uint32_t stage = value_position_.index();
    barriers.value_empty[stage].wait(value_position_.parity() ^ 1U);
    barriers.value_full[stage].arrive_and_expect_tx(Tile::block_bytes);
    load_block(launch_.value, &barriers.value_full[stage], shared_.value(stage), key_block, work);
    value_position_.advance();
  }

  /// Both pieces, or in a cluster one of them, for both CTAs.
  __device__ void load_block(const CUtensorMap& map, TransactionBarrier* barrier, std::uint32_t destination,
                             std::int32_t key_block, const schedule::AttentionWork& work) const {
    const std::int32_t row = key_block * Tile::block_keys;
    if (launch_.cluster_size == 1) {
      load_piece<false>(map, barrier, destination, row, 0, work);
      load_piece<false>(map, barrier, destination, row, 1, work);
    } else {
      load_piece<true>(map, barrier, destination, row, static_cast<std::int32_t>(cluster_rank_), work);
    }
  }

  template <bool ForCluster>
  __device__ static void load_piece(const CUtensorMap& map, TransactionBarrier* barrier, std::uint32_t destination,
                                    std::int32_t row, std::int32_t piece, const schedule::AttentionWork& work) {
    const std::uint32_t barrier_address = cute::cast_smem_ptr_to_uint(barrier);
    const std::uint32_t address = destination + static_cast<std::uint32_t>(piece * Tile::piece_bytes);
    const std::int32_t half = Tile::halves == 2 ? piece : 0;
    const std::int32_t piece_row = Tile::halves == 2 ? row : row + piece * Tile::piece_rows;
    if constexpr (ForCluster) {
      asm volatile(
          "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, "
          "{%3, %4, %5, %6, %7}], [%2], %8;" ::"r"(address),
          "l"(&map), "r"(barrier_address), "r"(0), "r"(piece_row), "r"(half), "r"(work.key_head), "r"(work.sequence),
          "h"(static_cast<std::uint16_t>(3))
          : "memory");
    } else {
      asm volatile(
          "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6, "
          "%7}], [%2];" ::"r"(address),
          "l"(&map), "r"(barrier_address), "r"(0), "r"(piece_row), "r"(half), "r"(work.key_head), "r"(work.sequence)
          : "memory");
    }
  }

  /// All halves of some rows of one head: coordinates of [sequences, heads, halves, rows, 64], innermost first.
  __device__ static void load(const CUtensorMap& map, TransactionBarrier* barrier, std::uint32_t destination,
                              std::int32_t row, std::int32_t head, std::int32_t sequence) {
    const std::uint32_t barrier_address = cute::cast_smem_ptr_to_uint(barrier);
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6, %7}], "
        "[%2];" ::"r"(destination),
        "l"(&map), "r"(barrier_address), "r"(0), "r"(row), "r"(0), "r"(head), "r"(sequence)
        : "memory");
  }

  const AttentionLaunch& launch_;
  const std::uint32_t cluster_rank_;
  const AttentionShared<Tile> shared_;
  std::uint32_t query_parity_ = 0;
  StagePosition key_position_;
  StagePosition value_position_;
};

}  // namespace xstage::kernels
