#pragma once
// One thread loads queries, keys and values by TMA, and passes each tile to the multiplying warpgroups.
//
//   tile n                        | tile n + 1
//   ... keys 0   values 1         | keys e - 1   queries, for each warpgroup   keys e - 2   values e - 1 ...
//                        values 0 |              that has done its last scores
//                        draws the next tile

#include "ops/attention/device/input_watch.cuh"
#include "ops/attention/device/shared.cuh"

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
      load_all_but_last_values({tile, 0, 1, 0, 0});
      index = load_last_values(tile, index);
      await_input<HeadDim>(everything_arrived);
    }
    await_input<HeadDim>(everything_arrived);
    for (std::int32_t share = 0; launch_.split.shares != nullptr && share < schedule::shares_each; ++share) {
      const schedule::AttentionShare work = launch_.split.shares[block_ * schedule::shares_each + share];
      if (work.tile.block_end > 0) {
        load_all_but_last_values(work);
        // Also after a first share, since the second one is as short.
        Shared::barriers().follows[parity_ ^ 1U] = WhatFollows::nothing_waits;
        load_values(work.tile, work.tile.block_begin, 1);
      }
    }
    announce({});
    leave_draw();
  }

 private:
  __device__ std::int32_t next_index(std::int32_t index) const {
    if (launch_.tickets == nullptr) {
      return index + blocks_;
    }
    return blocks_ + static_cast<std::int32_t>(atomicAdd(launch_.tickets, 1U));
  }

  /// What follows a whole tile if `next` is the next index.
  [[nodiscard]] __device__ std::uint32_t what_follows(std::int32_t next) const {
    const bool nothing = next >= launch_.whole_tiles && launch_.split.shares == nullptr;
    return (nothing ? WhatFollows::nothing_waits : 0U) |
           (next >= launch_.first_own_work ? WhatFollows::own_rows_only : 0U);
  }

  /// The last CTA that draws resets the counters for the next launch.
  __device__ void leave_draw() const {
    if (launch_.tickets == nullptr) {
      return;
    }
    const auto last = static_cast<std::uint32_t>(blocks_ - 1);
    if (atomicInc(launch_.tickets + 1, last) == last) {
      atomicExch(launch_.tickets, 0U);
    }
  }

  /// Keys are loaded before the queries, because their stage is free as soon as the scores of two blocks before are
  /// computed.
  __device__ void load_all_but_last_values(const schedule::AttentionShare& work) {
    const schedule::AttentionTile& tile = work.tile;
    load_keys(tile, tile.block_end - 1);
    announce(work);
#pragma unroll 1
    for (std::int32_t block = tile.block_end - 1; block > tile.block_begin; --block) {
      load_keys(tile, block - 1);
      load_values(tile, block, 2);
    }
  }

  /// Draws the next index as late as possible, so that the CTA with the shortest tile is the first to draw a long one.
  /// The answer takes most of a microsecond, and the warpgroups need these values only after more than one block, which
  /// takes two microseconds. The barrier of the values also publishes what follows. Returns the next index.
  __device__ std::int32_t load_last_values(const schedule::AttentionTile& tile, std::int32_t index) {
    const std::uint32_t stage = await_value_stage(1);
    TransactionBarrier& full = Shared::barriers().value_full[stage];
    load_box(launch_.value, full, Shared::value(stage), tile.block_begin * attention_block_keys, tile.key_head,
             tile.sequence);
    const std::int32_t next = next_index(index);
    Shared::barriers().follows[parity_ ^ 1U] = what_follows(next);
    full.arrive_and_expect_tx(Layout::block_bytes);
    return next;
  }

  /// Passes each warpgroup its queries and its work as soon as it has no more use for those before.
  __device__ void announce(const schedule::AttentionShare& work) {
    AttentionBarriers& barriers = Shared::barriers();
    const schedule::AttentionTile& tile = work.tile;
    std::uint32_t waiting = (1U << static_cast<unsigned>(attend_warpgroups)) - 1U;
#pragma unroll 1
    for (std::int32_t warpgroup = 0; waiting != 0U; warpgroup = warpgroup + 1 < attend_warpgroups ? warpgroup + 1 : 0) {
      const std::uint32_t bit = 1U << static_cast<unsigned>(warpgroup);
      if ((waiting & bit) == 0U || !barriers.query_empty[warpgroup].test_wait(parity_ ^ 1U)) {
        continue;
      }
      waiting &= ~bit;
      barriers.work[parity_][warpgroup] = work;
      TransactionBarrier& full = barriers.query_full[warpgroup];
      if (tile.block_end == 0) {
        full.arrive();
      } else {
        full.arrive_and_expect_tx(Layout::slab_bytes);
        load_box(launch_.query, full, Shared::query(warpgroup), tile.row + warpgroup_rows * warpgroup, tile.head,
                 tile.sequence);
      }
    }
    parity_ ^= 1U;
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

  /// `ahead` is the number of key blocks that have been loaded from this one on.
  __device__ void load_values(const schedule::AttentionTile& tile, std::int32_t block, std::uint32_t ahead) {
    const std::uint32_t stage = await_value_stage(ahead);
    load_block(launch_.value, Shared::barriers().value_full[stage], Shared::value(stage), tile, block);
  }

  __device__ std::uint32_t await_value_stage(std::uint32_t ahead) {
    const StagePosition position{keys_loaded_.count - ahead};
    const std::uint32_t stage = position.index();
    Shared::barriers().value_empty[stage].wait(position.parity() ^ 1U);
    probe_.delay();
    return stage;
  }

  __device__ static void load_block(const CUtensorMap& map, TransactionBarrier& barrier, std::uint32_t destination,
                                    const schedule::AttentionTile& tile, std::int32_t block) {
    barrier.arrive_and_expect_tx(Layout::block_bytes);
    load_box(map, barrier, destination, block * attention_block_keys, tile.key_head, tile.sequence);
  }

  /// Loads a box of all of head_dim. Coordinates are in [sequences, heads, halves, rows, 64], innermost first.
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
  std::uint32_t parity_ = 0;  // of the next tile
  StagePosition keys_loaded_;
};

}  // namespace xstage::kernels
