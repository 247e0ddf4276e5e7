#pragma once
// Barriers and buffers of one CTA.

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

/// A ring of two stages: which one comes next, and the parity of its round.
struct StagePosition {
  std::uint32_t count = 0;

  [[nodiscard]] __device__ std::uint32_t index() const { return count % key_stages; }
  [[nodiscard]] __device__ std::uint32_t parity() const { return count / key_stages % 2U; }
  __device__ void advance() { ++count; }
};

/// The 128 threads of a multiplying warpgroup. Literal numbers: with a variable one the compiler reserves all sixteen
/// barriers.
__device__ inline void sync_warpgroup(int warpgroup) {
  if (warpgroup == 0) {
    asm volatile("bar.sync 1, 128;" ::: "memory");
  } else if (warpgroup == 1) {
    asm volatile("bar.sync 2, 128;" ::: "memory");
  } else {
    asm volatile("bar.sync 3, 128;" ::: "memory");
  }
}

/// Below all blocks.
inline constexpr std::int32_t everything_arrived = -1;

/// What a CTA has to do after a tile, in bits.
struct WhatFollows {
  static constexpr std::uint32_t nothing_waits = 1;  // whose loads its stores could hold up
  static constexpr std::uint32_t own_rows_only = 2;  // if anything
};

/// Results of one warpgroup: 64 rows of one head.
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
  // Of each warpgroup's queries, and guarded by their two barriers; block_end 0: there is none. That of one tile stays
  // until the queries of the next one are given back, when its results have been staged.
  schedule::AttentionShare work[2][attend_warpgroups];
  std::uint32_t follows[2];      // that work: WhatFollows; known when its last values are there
  Slab slab[attend_warpgroups];  // guarded by staged and vacant
  std::uint32_t finished_parts[attend_warpgroups];
  std::uint32_t arrived_from;              // see input_watch.cuh
  std::uint32_t epoch[attend_warpgroups];  // number of this call, as each store warp has read it
  std::int32_t block;                      // of the rank's CTAs
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

  /// One thread.
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
