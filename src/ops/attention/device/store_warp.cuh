#pragma once
// Warps 1 to 3: each stores the results of one multiplying warpgroup to the owners of their rows, and signals them.
//
//   staged slab (64 rows of one head) --bulk store--> [sequence, row - first row of owner, head, :] of its owner
//                                     --16 bytes a lane--> the same of each row's owner, if there are several

#include "fabric/call.cuh"
#include "ops/attention/device/shared.cuh"

namespace xstage::kernels {

template <int HeadDim, class Probe>
class AttentionStoreWarp {
 public:
  using Layout = AttentionLayout<HeadDim>;
  using Shared = AttentionShared<HeadDim>;

  __device__ AttentionStoreWarp(const AttentionLaunch& launch, int warpgroup)
      : launch_(launch),
        warpgroup_(warpgroup),
        leader_(cute::elect_one_sync() != 0U),
        probe_(Shared::barriers().probes, warpgroup == 0 ? SpanRole::store_first : SpanRole::store_second) {}

  __device__ void run(std::int32_t block) {
    if (!call().alone()) {
      const std::uint32_t epoch = call().epoch();
      if (leader_) {
        Shared::barriers().epoch[warpgroup_] = epoch;
      }
      if (block == 0 && warpgroup_ == 0 && leader_) {
        call().announce(epoch);
      }
    }
    store_slabs();
    if (!call().alone()) {
      finish();
    }
  }

 private:
  /// Made anew at each use: a call is needed only at both ends of a launch, and helpers have few registers.
  [[nodiscard]] __device__ CollectiveCall call() const { return {launch_.call, Shared::barriers().block}; }

  __device__ bool recording() const { return leader_ && warpgroup_ < 2; }

  __device__ void store_slabs() {
    AttentionBarriers& barriers = Shared::barriers();
    bool entered = call().alone();
    std::uint32_t parity = 0;
#pragma unroll 1
    for (;;) {
      barriers.staged[warpgroup_].wait(parity);
      parity ^= 1U;
      const Slab slab = barriers.slab[warpgroup_];
      if (slab.row < 0) {
        return;
      }
      if (!entered) {
        entered = true;
        gave_up_ = __any_sync(0xFFFFFFFFU, leader_ && !call().await_peers(Shared::barriers().epoch[warpgroup_])) != 0;
      }
      if (recording()) {
        probe_.delay();
        probe_.begin();
      }
      if (!gave_up_) {
        store(slab);
      }
      __syncwarp();  // all lanes have read the slab, also if nothing is stored: a lane that fell two slabs behind would
                     // wait for ever
      if (leader_) {
        await_bulk_sources();
        barriers.vacant[warpgroup_].arrive();
      }
      if (recording()) {
        probe_.end(SpanKind::store_tile, slab.head);
      }
      if (!gave_up_ && launch_.destinations.slabs > 0) {
        tell_owners(slab);
        if (leader_ && (slab.follows & WhatFollows::own_rows_only) != 0U && !posted_) {
          posted_ = true;  // posted early: at the end of the kernel it would take two microseconds more
          call().post_done();
        }
      }
    }
  }

  __device__ void store(const Slab& slab) {
    const std::int32_t owner = owner_of(slab.row);
    // A bulk store must not begin before the first row of its owner: the map clips rows behind the last one, but a
    // negative coordinate is an illegal instruction.
    const std::int32_t end = min(slab.row + warpgroup_rows, launch_.schedule.shape().rows);
    if (launch_.destinations.direct != 0 || end > launch_.destinations.row_begin[owner + 1]) {
      store_direct(slab);
    } else if (leader_) {
      store_bulk(slab, owner);
    }
  }

  /// Owner of a row, which must exist.
  [[nodiscard]] __device__ std::int32_t owner_of(std::int32_t row) const {
    std::int32_t owner = 0;
    while (row >= launch_.destinations.row_begin[owner + 1]) {
      ++owner;
    }
    return owner;
  }

  /// Whether rows of the slab belong to the destination. An owner without rows begins and ends behind the last row,
  /// into which the last slab may reach.
  [[nodiscard]] __device__ bool owns_part(std::int32_t destination, const Slab& slab) const {
    const std::int32_t begin = launch_.destinations.row_begin[destination];
    const std::int32_t end = launch_.destinations.row_begin[destination + 1];
    return begin < end && slab.row < end && slab.row + warpgroup_rows > begin;
  }

  __device__ void store_bulk(const Slab& slab, std::int32_t owner) {
    const std::int32_t row = slab.row - launch_.destinations.row_begin[owner];
    if (owner == launch_.destinations.own) {
      store_box(slab, owner, 0, row, 0);
      commit_bulk_stores();
      return;
    }
    // Stores in small groups, spread over time. All slabs of a round at once would fill the X-Stage, and this
    // multiprocessor's own loads would queue behind them: each such round took 17 us longer, the time in which its 6.3
    // MB drain.
#pragma unroll 1
    for (std::int32_t half = 0; half < Layout::halves; ++half) {
#pragma unroll 1
      for (std::int32_t first = 0; first < warpgroup_rows; first += remote_store_rows) {
        await_interval(slab);
        store_box(slab, owner, half, row + first, half * Layout::slab_half_bytes + first * 128);
        commit_bulk_stores();
      }
    }
  }

  /// Wraps every four seconds; then a store waits for one interval too long at worst.
  __device__ static std::uint32_t nanoseconds() { return static_cast<std::uint32_t>(global_nanoseconds()); }

  __device__ void await_interval(const Slab& slab) {
    if ((slab.follows & WhatFollows::nothing_waits) != 0U || launch_.destinations.store_interval_ns == 0) {
      return;
    }
    while (nanoseconds() - last_store_ns_ < launch_.destinations.store_interval_ns) {
    }
    last_store_ns_ = nanoseconds();
  }

  __device__ void store_box(const Slab& slab, std::int32_t owner, std::int32_t half, std::int32_t row,
                            std::int32_t offset) const {
    asm volatile("cp.async.bulk.tensor.5d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5, %6}], [%1];" ::"l"(
                     &launch_.output[owner]),
                 "r"(Shared::results(warpgroup_) + static_cast<std::uint32_t>(offset)), "r"(0), "r"(row), "r"(half),
                 "r"(launch_.destinations.first_head + slab.head), "r"(slab.sequence)
                 : "memory");
  }

  /// Stores 16 bytes a lane: 32 lanes write two rows of 256 bytes, or four of 128.
  __device__ void store_direct(const Slab& slab) const {
    constexpr std::int32_t row_units = HeadDim / 8;
    constexpr std::int32_t half_units = half_columns / 8;
#pragma unroll 1
    for (auto unit = static_cast<std::int32_t>(threadIdx.x % 32U); unit < warpgroup_rows * row_units; unit += 32) {
      const std::int32_t row = unit / row_units;
      const std::int32_t column = unit % row_units;
      const std::uint32_t source =
          Shared::results(warpgroup_) + static_cast<std::uint32_t>(column / half_units * Layout::slab_half_bytes +
                                                                   row * 128 + (column % half_units ^ row % 8) * 16);
      uint4 value;
      asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
                   : "r"(source));
      char* row_begin = row_address(slab, slab.row + row);
      if (row_begin != nullptr) {
        *reinterpret_cast<uint4*>(row_begin + column * 16) = value;
      }
    }
  }

  /// Address of a row at its owner; null behind the last row.
  [[nodiscard]] __device__ char* row_address(const Slab& slab, std::int32_t row) const {
    const AttentionDestinations& destinations = launch_.destinations;
    if (row >= launch_.schedule.shape().rows) {
      return nullptr;
    }
    const std::int32_t owner = owner_of(row);
    const std::int32_t begin = destinations.row_begin[owner];
    const std::int64_t rows = destinations.row_begin[owner + 1] - begin;
    const std::int64_t line = slab.sequence * rows + row - begin;
    return destinations.base[owner] + (line * destinations.heads + destinations.first_head + slab.head) * (HeadDim * 2);
  }

  /// Signals the owners that one more head of these rows has arrived. The fence before that waits for the stores and
  /// takes microseconds while the fabric is busy; this warp has that time, and a multiplying one would not.
  __device__ void tell_owners(const Slab& slab) {
    if (!leader_) {
      return;
    }
    await_bulk_stores();
    fence_async_proxy();
    if (goes_to_peers(slab)) {
      fence_release();
    } else {
      fence_release_on_gpu();  // saves a microsecond, since the last slabs of the call are this rank's own
    }
    if (warpgroup_ < 2) {
      probe_.delay();
    }
    const std::uint32_t counter =
        CallPad::arrivals +
        static_cast<std::uint32_t>(slab.sequence * launch_.destinations.slabs + slab.row / warpgroup_rows);
#pragma unroll 1
    for (std::int32_t destination = 0; destination < launch_.destinations.count; ++destination) {
      if (owns_part(destination, slab)) {
        add_relaxed(launch_.call.signals[destination] + counter, 1U);
      }
    }
  }

  [[nodiscard]] __device__ bool goes_to_peers(const Slab& slab) const {
    const std::int32_t own = launch_.destinations.own;
    return slab.row < launch_.destinations.row_begin[own] ||
           min(slab.row + warpgroup_rows, launch_.schedule.shape().rows) > launch_.destinations.row_begin[own + 1];
  }

  /// Signals the peers that expect results from here; their arrival has been fenced with each slab. When all store
  /// warps of the CTA have come here, warp 1 opens the next call.
  __device__ void finish() {
    if (!leader_) {
      return;
    }
    if (!gave_up_ && !posted_) {
      call().post_done();
    }
    ArrivalBarrier& stored = Shared::barriers().stored;
    stored.arrive();
    if (warpgroup_ != 0) {
      return;
    }
    stored.wait(0);
    if (launch_.leaves_early != 0) {
      call().open_next(Shared::barriers().epoch[0]);
    } else {
      call().leave(Shared::barriers().epoch[0],
                   static_cast<std::uint32_t>(attend_warpgroups * Shared::barriers().blocks));
    }
  }

  const AttentionLaunch& launch_;
  const int warpgroup_;
  const bool leader_;
  Probe probe_;
  std::uint32_t last_store_ns_ = 0;
  bool posted_ = false;   // peers have been signalled that this warp stores no more
  bool gave_up_ = false;  // a wait gave up: nothing more goes to peers, who learn it from the abort word
};

}  // namespace xstage::kernels
