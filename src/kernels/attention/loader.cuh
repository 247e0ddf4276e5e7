#pragma once
// One thread fetches queries, keys and values by TMA, and tells the multiplying warpgroups which tile comes.

#include "kernels/attention/attention_shared.cuh"
#include "kernels/attention/input_watch.cuh"

namespace xstage::kernels {

template <int HeadDim, class Probe>
class AttentionLoader {
 public:
  using Layout = AttentionLayout<HeadDim>;
  using Shared = AttentionShared<HeadDim>;

  __device__ AttentionLoader(const AttentionLaunch& launch, std::int32_t block, std::int32_t blocks)
      : launch_(launch), block_(block), blocks_(blocks), probe_(Shared::barriers().probes, SpanRole::loader) {}

  __device__ void run() {
    std::int32_t index = block_;
    while (index < launch_.whole_tiles) {
      const schedule::AttentionTile tile = launch_.schedule.tile(index);
      const std::int32_t next = next_index(index);  // drawn early: the answer takes most of a microsecond
      work_on({tile, 0, 1, 0, 0}, what_follows(next));
      await_input<HeadDim>(everything_arrived);
      index = next;
    }
    await_input<HeadDim>(everything_arrived);
    for (std::int32_t share = 0; launch_.split.shares != nullptr && share < schedule::shares_each; ++share) {
      const schedule::AttentionShare work = launch_.split.shares[block_ * schedule::shares_each + share];
      if (work.tile.block_end > 0) {
        work_on(work, WhatFollows::nothing_waits);  // a second share may follow: it is as short
      }
    }
    announce({}, WhatFollows::nothing_waits);
    leave_draw();
  }

 private:
  __device__ std::int32_t next_index(std::int32_t index) const {
    if (launch_.tickets == nullptr) {
      return index + blocks_;
    }
    return blocks_ + static_cast<std::int32_t>(atomicAdd(launch_.tickets, 1U));
  }

  /// After a whole tile, if that index comes next.
  [[nodiscard]] __device__ std::uint32_t what_follows(std::int32_t next) const {
    const bool nothing = next >= launch_.whole_tiles && launch_.split.shares == nullptr;
    return (nothing ? WhatFollows::nothing_waits : 0U) |
           (next >= launch_.first_own_work ? WhatFollows::own_rows_only : 0U);
  }

  /// The last CTA that has drawn leaves the counters as the next launch wants them.
  __device__ void leave_draw() const {
    if (launch_.tickets == nullptr) {
      return;
    }
    const auto last = static_cast<std::uint32_t>(blocks_ - 1);
    if (atomicInc(launch_.tickets + 1, last) == last) {
      atomicExch(launch_.tickets, 0U);
    }
  }

  __device__ void work_on(const schedule::AttentionShare& work, std::uint32_t follows) {
    announce(work, follows);
    const schedule::AttentionTile& tile = work.tile;
    load_keys(tile, tile.block_end - 1);
#pragma unroll 1
    for (std::int32_t block = tile.block_end - 1; block > tile.block_begin; --block) {
      load_keys(tile, block - 1);
      load_values(tile, block, 2);
    }
    load_values(tile, tile.block_begin, 1);
  }

  __device__ void announce(const schedule::AttentionShare& work, std::uint32_t follows) {
    AttentionBarriers& barriers = Shared::barriers();
    barriers.query_empty.wait(query_parity_ ^ 1U);
    query_parity_ ^= 1U;
    barriers.work = work;
    barriers.follows = follows;
    const schedule::AttentionTile& tile = work.tile;
    if (tile.block_end == 0) {
      barriers.query_full.arrive();
      return;
    }
    await_input<HeadDim>(tile.block_end);
    barriers.query_full.arrive_and_expect_tx(Layout::query_bytes);
    load_box(launch_.query, barriers.query_full, Shared::query(0), tile.row, tile.head, tile.sequence);
  }

  __device__ void load_keys(const schedule::AttentionTile& tile, std::int32_t block) {
    AttentionBarriers& barriers = Shared::barriers();
    await_input<HeadDim>(block);
    const std::uint32_t stage = keys_loaded_.index();
    barriers.key_empty[stage].wait(keys_loaded_.parity() ^ 1U);
    probe_.delay();
    load_block(launch_.key, barriers.key_full[stage], Shared::key(stage), tile, block);
    keys_loaded_.advance();
  }

  /// `ahead`: blocks of keys that have been loaded from this one on.
  __device__ void load_values(const schedule::AttentionTile& tile, std::int32_t block, std::uint32_t ahead) {
    AttentionBarriers& barriers = Shared::barriers();
    const StagePosition position{keys_loaded_.count - ahead};
    const std::uint32_t stage = position.index();
    barriers.value_empty[stage].wait(position.parity() ^ 1U);
    probe_.delay();
    load_block(launch_.value, barriers.value_full[stage], Shared::value(stage), tile, block);
  }

  __device__ static void load_block(const CUtensorMap& map, TransactionBarrier& barrier, std::uint32_t destination,
                                    const schedule::AttentionTile& tile, std::int32_t block) {
    barrier.arrive_and_expect_tx(Layout::block_bytes);
    load_box(map, barrier, destination, block * attention_block_keys, tile.key_head, tile.sequence);
  }

  /// All of head_dim: coordinates in [sequences, heads, halves, rows, 64], innermost first.
  __device__ static void load_box(const CUtensorMap& map, TransactionBarrier& barrier, std::uint32_t destination,
                                  std::int32_t row, std::int32_t head, std::int32_t sequence) {
    asm volatile(
        "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6, "
        "%7}], [%2];" ::"r"(destination),
        "l"(&map), "r"(cute::cast_smem_ptr_to_uint(&barrier)), "r"(0), "r"(row), "r"(0), "r"(head), "r"(sequence)
        : "memory");
  }

  const AttentionLaunch& launch_;
  const std::int32_t block_;
  const std::int32_t blocks_;
  Probe probe_;
  std::uint32_t query_parity_ = 0;
  StagePosition keys_loaded_;
};

}  // namespace xstage::kernels
