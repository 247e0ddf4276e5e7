#pragma once
// One thread fetches queries, keys and values by TMA, and tells the multiplying warpgroups which tile comes.

#include "kernels/attention/attention_shared.cuh"

namespace xstage::kernels {

/// Of which cluster a CTA is, counted in its rank.
struct AttentionPlace {
  std::int32_t block;
  std::int32_t cluster;
  std::int32_t clusters;
  std::int32_t rank_in_cluster;
};

template <int HeadDim, class Probe>
class AttentionLoader {
 public:
  using Layout = AttentionLayout<HeadDim>;
  using Shared = AttentionShared<HeadDim>;

  __device__ AttentionLoader(const AttentionLaunch& launch, const AttentionPlace& place)
      : launch_(launch), place_(place), probe_(launch.probe, Shared::barriers().probes, place.block, SpanRole::loader) {
    probe_.start();
  }

  __device__ void run() {
    std::int32_t index = place_.cluster;
    while (index < launch_.schedule.cluster_tiles()) {
      const schedule::AttentionTile tile = launch_.schedule.tile(index, place_.rank_in_cluster);
      const std::int32_t next = next_index(index);  // drawn early: the answer takes most of a microsecond
      announce(tile);
      load_tile(tile);
      index = next;
    }
    announce({-1, 0, 0, 0, 0});
    leave_draw();
  }

 private:
  __device__ std::int32_t next_index(std::int32_t index) const {
    if (launch_.tickets == nullptr) {
      return index + place_.clusters;
    }
    return place_.clusters + static_cast<std::int32_t>(atomicAdd(launch_.tickets, 1U));
  }

  /// The last CTA that has drawn leaves the counters as the next launch wants them.
  __device__ void leave_draw() const {
    if (launch_.tickets == nullptr) {
      return;
    }
    const auto last = static_cast<std::uint32_t>(place_.clusters - 1);
    if (atomicInc(launch_.tickets + 1, last) == last) {
      atomicExch(launch_.tickets, 0U);
    }
  }

  __device__ void load_tile(const schedule::AttentionTile& tile) {
    load_keys(tile, tile.blocks - 1);
#pragma unroll 1
    for (std::int32_t block = tile.blocks - 1; block > 0; --block) {
      load_keys(tile, block - 1);
      load_values(tile, block);
    }
    load_values(tile, 0);
  }

  __device__ void announce(const schedule::AttentionTile& tile) {
    AttentionBarriers& barriers = Shared::barriers();
    barriers.query_empty.wait(query_parity_ ^ 1U);
    query_parity_ ^= 1U;
    barriers.tile = tile;
    if (tile.blocks == 0) {
      barriers.query_full.arrive();
      return;
    }
    barriers.query_full.arrive_and_expect_tx(Layout::query_bytes);
    load_box<false>(launch_.query, barriers.query_full, Shared::query(0), {tile.row, 0, tile.head, tile.sequence});
  }

  __device__ void load_keys(const schedule::AttentionTile& tile, std::int32_t block) {
    AttentionBarriers& barriers = Shared::barriers();
    const std::uint32_t stage = key_position_.index();
    barriers.key_empty[stage].wait(key_position_.parity() ^ 1U);
    probe_.delay();
    load_block(launch_.key, barriers.key_full[stage], Shared::key(stage), tile, block);
    key_position_.advance();
  }

  __device__ void load_values(const schedule::AttentionTile& tile, std::int32_t block) {
    AttentionBarriers& barriers = Shared::barriers();
    const std::uint32_t stage = value_position_.index();
    barriers.value_empty[stage].wait(value_position_.parity() ^ 1U);
    probe_.delay();
    load_block(launch_.value, barriers.value_full[stage], Shared::value(stage), tile, block);
    value_position_.advance();
  }

  /// Both pieces of a block, or in a cluster one of them, for both CTAs.
  __device__ void load_block(const CUtensorMap& map, TransactionBarrier& barrier, std::uint32_t destination,
                             const schedule::AttentionTile& tile, std::int32_t block) const {
    barrier.arrive_and_expect_tx(Layout::block_bytes);
    const bool clustered = launch_.schedule.tiling().cluster_size > 1;
#pragma unroll
    for (std::int32_t piece = 0; piece < 2; ++piece) {
      const Box box = {block * attention_block_keys + (Layout::halves == 2 ? 0 : piece * Layout::piece_rows),
                       Layout::halves == 2 ? piece : 0, tile.key_head, tile.sequence};
      const std::uint32_t address = destination + static_cast<std::uint32_t>(piece * Layout::piece_bytes);
      if (!clustered) {
        load_box<false>(map, barrier, address, box);
      } else if (piece == place_.rank_in_cluster) {
        load_box<true>(map, barrier, address, box);
      }
    }
  }

  /// Coordinates in [sequences, heads, halves, rows, 64], innermost first but for the columns, which begin at 0.
  struct Box {
    std::int32_t row;
    std::int32_t half;
    std::int32_t head;
    std::int32_t sequence;
  };

  template <bool ForCluster>
  __device__ static void load_box(const CUtensorMap& map, TransactionBarrier& barrier, std::uint32_t destination,
                                  const Box& box) {
    const std::uint32_t barrier_address = cute::cast_smem_ptr_to_uint(&barrier);
    if constexpr (ForCluster) {
      constexpr std::uint16_t both = 3;
      asm volatile(
          "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, "
          "{%3, %4, %5, %6, %7}], [%2], %8;" ::"r"(destination),
          "l"(&map), "r"(barrier_address), "r"(0), "r"(box.row), "r"(box.half), "r"(box.head), "r"(box.sequence),
          "h"(both)
          : "memory");
    } else {
      asm volatile(
          "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6, "
          "%7}], [%2];" ::"r"(destination),
          "l"(&map), "r"(barrier_address), "r"(0), "r"(box.row), "r"(box.half), "r"(box.head), "r"(box.sequence)
          : "memory");
    }
  }

  const AttentionLaunch& launch_;
  const AttentionPlace place_;
  Probe probe_;
  std::uint32_t query_parity_ = 0;
  StagePosition key_position_;
  StagePosition value_position_;
};

}  // namespace xstage::kernels
