#pragma once
// Barriers and buffers in the shared memory of one CTA.

#include <cute/arch/config.hpp>
//
#include <cutlass/arch/barrier.h>
#include <cute/arch/util.hpp>

#include "fabric/probe.cuh"
#include "ops/attention/device/layout.hpp"
#include "ops/attention/device/parameters.hpp"

namespace xstage::kernels {

using TransactionBarrier = cutlass::arch::ClusterTransactionBarrier;
using ArrivalBarrier = cutlass::arch::ClusterBarrier;

/// Position in a ring of two stages: the next stage, and the parity of its round.
struct StagePosition {
  std::uint32_t count = 0;

  [[nodiscard]] __device__ std::uint32_t index() const { return count % key_stages; }
  [[nodiscard]] __device__ std::uint32_t parity() const { return count / key_stages % 2U; }
  __device__ void advance() { ++count; }
};

/// Barrier of the 128 threads of a multiplying warpgroup. Its numbers are literals: with a variable one the compiler
/// reserves all sixteen barriers.
__device__ inline void sync_warpgroup(int warpgroup) {
  if (warpgroup == 0) {
    asm volatile("bar.sync 1, 128;" ::: "memory");
  } else if (warpgroup == 1) {
    asm volatile("bar.sync 2, 128;" ::: "memory");
  } else {
    asm volatile("bar.sync 3, 128;" ::: "memory");
  }
}

/// Value of `arrived_from` when all operands have arrived; it lies below all blocks.
inline constexpr std::int32_t everything_arrived = -1;

/// What a CTA has to do after a tile, as bits.
struct WhatFollows {
  static constexpr std::uint32_t nothing_waits = 1;  // no work follows whose loads the stores of this tile could delay
  static constexpr std::uint32_t own_rows_only = 2;  // if work follows, all of its rows are this rank's own
};

/// Staged results of one warpgroup: 64 rows of one head.
struct Slab {
  std::int32_t row;  // -1: none, the warpgroup has finished
  std::int32_t head;
  std::int32_t sequence;
  std::uint32_t follows;  // WhatFollows
};

struct AttentionBarriers {
  TransactionBarrier query_full[attend_warpgroups];
  ArrivalBarrier query_empty[attend_warpgroups];
  TransactionBarrier key_full[key_stages];
  ArrivalBarrier key_empty[key_stages];
  TransactionBarrier value_full[key_stages];
  ArrivalBarrier value_empty[key_stages];
  ArrivalBarrier staged[attend_warpgroups];  // results lie in shared memory
  ArrivalBarrier vacant[attend_warpgroups];  // and have left it
  ArrivalBarrier stored;                     // the CTA's store warps have finished
  // Work that belongs to each warpgroup's queries, guarded by their two barriers; block_end 0: no more work. The work
  // of one tile stays valid until the queries of the next tile are released, after its results have been staged.
  schedule::AttentionShare work[2][attend_warpgroups];
  std::uint32_t follows[2];      // WhatFollows of that work; valid when its last values have arrived
  Slab slab[attend_warpgroups];  // guarded by staged and vacant
  std::uint32_t finished_parts[attend_warpgroups];
  std::uint32_t arrived_from;              // see input_watch.cuh
  std::uint32_t epoch[attend_warpgroups];  // number of this call, as each store warp has read it
  std::int32_t block;                      // number of this CTA among those of the rank
  std::int32_t blocks;
  ProbeState probes[span_roles];
};

template <int HeadDim>
class AttentionShared {
 public:
  using Layout = AttentionLayout<HeadDim>;

  [[nodiscard]] __device__ static AttentionBarriers& barriers() {
    static_assert(sizeof(AttentionBarriers) <= Layout::barriers_bytes);
    return *reinterpret_cast<AttentionBarriers*>(base() + Layout::barriers_offset);
  }
  [[nodiscard]] __device__ static std::uint32_t query(int warpgroup) {
    return address(Layout::query_offset) + static_cast<std::uint32_t>(warpgroup * Layout::slab_bytes);
  }
  [[nodiscard]] __device__ static std::uint32_t key(std::uint32_t stage) {
    return address(Layout::key_offset) + stage * Layout::block_bytes;
  }
  [[nodiscard]] __device__ static std::uint32_t value(std::uint32_t stage) {
    return address(Layout::value_offset) + stage * Layout::block_bytes;
  }
  [[nodiscard]] __device__ static std::uint32_t results(int warpgroup) {
    return address(Layout::results_offset) + static_cast<std::uint32_t>(warpgroup * Layout::slab_bytes);
  }

  /// Called by one thread.
  __device__ static void initialise(std::int32_t block, std::int32_t blocks, bool awaits_input) {
    AttentionBarriers& all = barriers();
    all.block = block;
    all.blocks = blocks;
    all.arrived_from = static_cast<std::uint32_t>(awaits_input ? INT32_MAX : everything_arrived);
#pragma unroll
    for (int stage = 0; stage < key_stages; ++stage) {
      all.key_full[stage].init(1);
      all.key_empty[stage].init(attend_warpgroups);
      all.value_full[stage].init(1);
      all.value_empty[stage].init(attend_warpgroups);
    }
#pragma unroll
    for (int warpgroup = 0; warpgroup < attend_warpgroups; ++warpgroup) {
      all.query_full[warpgroup].init(1);
      all.query_empty[warpgroup].init(1);
      all.staged[warpgroup].init(4);  // one for each warp
      all.vacant[warpgroup].init(1);
    }
    all.stored.init(attend_warpgroups);
    cutlass::arch::fence_barrier_init();
  }

 private:
  [[nodiscard]] __device__ static char* base() {
    extern __shared__ __align__(1024) char shared[];
    return shared;
  }
  [[nodiscard]] __device__ static std::uint32_t address(int offset) {
    return cute::cast_smem_ptr_to_uint(base()) + static_cast<std::uint32_t>(offset);
  }
};

}  // namespace xstage::kernels
