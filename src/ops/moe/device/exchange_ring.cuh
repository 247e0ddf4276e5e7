#pragma once
// A warp's ring of stages in shared memory, through which pieces of rows move; bulk copies fill and empty it.
//
//   global --bulk load--> stage 0 | 1 | ... --bulk stores, one or several of each stage--> own memory or a peer's
//
// All lanes call all functions and count alike; lane 0 issues. A store is "complete" when it has been performed, not
// only when it has read its source, so that a flag may follow it (design rule 5). The additional time is hidden behind
// the stores of the other stages.

#include <cute/arch/config.hpp>
//
#include <cutlass/arch/barrier.h>
#include <cute/arch/copy_sm90_desc.hpp>
#include <cute/arch/copy_sm90_tma.hpp>

#include "fabric/call.cuh"
#include "ops/moe/device/role.cuh"

namespace xstage::kernels {

/// Waits until all but the last `Under` groups of this thread's stores have been performed.
template <int Under>
__device__ inline void await_bulk_stores_but() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(Under) : "memory");
}
/// The same for a number that only the launch knows, 1 to most_moe_stores_under_way, the stores that may stay in
/// flight.
__device__ inline void await_bulk_stores_but(std::int32_t under_way) {
  static_assert(most_moe_stores_under_way == 4);
  switch (under_way) {
    case 1:
      return await_bulk_stores_but<1>();
    case 2:
      return await_bulk_stores_but<2>();
    case 3:
      return await_bulk_stores_but<3>();
    default:
      return await_bulk_stores_but<4>();
  }
}

class MoeStageRing {
 public:
  using Barrier = cutlass::arch::ClusterTransactionBarrier;

  __device__ MoeStageRing(const MoeRing& ring, Barrier* loaded, char* stages)
      : ring_(ring), barriers_(loaded), base_(stages) {}

  /// May run before the preceding kernel in the stream has ended. `stages` is the number of the ring's stages, or of a
  /// longer ring that may take its place.
  __device__ void prepare(std::int32_t stages) const {
    if (lane_index() == 0) {
#pragma unroll 1
      for (std::int32_t stage = 0; stage < stages; ++stage) {
        barriers_[stage].init(1);
      }
      cutlass::arch::fence_barrier_init();
    }
    __syncwarp();
  }

  /// Divides the same memory into other stages. To be called before the first load.
  __device__ void become(const MoeRing& ring) { ring_ = ring; }

  [[nodiscard]] __device__ std::int32_t loaded() const { return loaded_; }  // pieces whose loads have begun
  // Pieces whose stores have been performed.
  [[nodiscard]] __device__ std::int32_t complete() const { return complete_; }
  [[nodiscard]] __device__ bool has_room() const { return loaded_ - complete_ < ring_.stages; }
  [[nodiscard]] __device__ bool is_drained() const { return stored_ == loaded_; }
  [[nodiscard]] __device__ std::int32_t load_stage() const { return load_stage_; }    // of the next piece to load
  [[nodiscard]] __device__ std::int32_t store_stage() const { return store_stage_; }  // of the next piece to store

  /// Loads a piece. No other warp reads the source, so that L2 is left to the results.
  __device__ void load(const char* source, std::int32_t bytes) {
    if (lane_index() == 0) {
      const auto hint = static_cast<std::uint64_t>(cute::TMA::CacheHintSm90::EVICT_FIRST);
      Barrier& barrier = barriers_[load_stage_];
      barrier.arrive_and_expect_tx(static_cast<std::uint32_t>(bytes));
      asm volatile(
          "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], "
          "%4;" ::"r"(cute::cast_smem_ptr_to_uint(stage(load_stage_))),
          "l"(source), "r"(bytes), "r"(cute::cast_smem_ptr_to_uint(&barrier)), "l"(hint)
          : "memory");
    }
    ++loaded_;
    load_stage_ = after(load_stage_);
  }

  /// Waits until the oldest piece has arrived.
  __device__ void await_piece() const {
    if (lane_index() == 0) {
      barriers_[store_stage_].wait(parity_);
    }
    __syncwarp();
  }

  /// Stores the oldest piece to one more destination.
  __device__ void store(char* target, std::int32_t bytes) const {
    if (lane_index() == 0) {
      cute::SM90_BULK_COPY_S2G::copy(stage(store_stage_), target, bytes);
    }
  }

  /// The same to memory that is not read soon: L2 evicts it before the tokens from peers, which are read when they have
  /// arrived.
  __device__ void store_first_out(char* target, std::int32_t bytes) const {
    if (lane_index() == 0) {
      asm volatile("cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [%0], [%1], %2, %3;" ::"l"(target),
                   "r"(cute::cast_smem_ptr_to_uint(stage(store_stage_))), "r"(bytes),
                   "l"(static_cast<std::uint64_t>(cute::TMA::CacheHintSm90::EVICT_FIRST))
                   : "memory");
    }
  }

  /// To be called after the last store of the oldest piece.
  __device__ void end_piece() {
    if (lane_index() == 0) {
      commit_bulk_stores();
      await_bulk_stores_but(ring_.under_way);
    }
    __syncwarp();
    pop();
    complete_ = max(complete_, stored_ - ring_.under_way);
  }

  __device__ void await_all_stores() {
    if (lane_index() == 0) {
      await_bulk_stores();
    }
    __syncwarp();
    complete_ = stored_;
  }

  /// Waits for loaded pieces and drops them, since no CTA may end with a load in flight.
  __device__ void drop() {
#pragma unroll 1
    while (!is_drained()) {
      await_piece();
      pop();
    }
    await_all_stores();
  }

 private:
  [[nodiscard]] __device__ char* stage(std::int32_t number) const { return base_ + number * ring_.stage_bytes; }
  [[nodiscard]] __device__ std::int32_t after(std::int32_t stage) const {
    return stage + 1 == ring_.stages ? 0 : stage + 1;
  }
  __device__ void pop() {
    ++stored_;
    store_stage_ = after(store_stage_);
    if (store_stage_ == 0) {
      parity_ ^= 1U;
    }
  }

  MoeRing ring_;
  Barrier* const barriers_;
  char* const base_;
  std::int32_t loaded_ = 0;
  std::int32_t stored_ = 0;
  std::int32_t complete_ = 0;
  std::int32_t load_stage_ = 0;
  std::int32_t store_stage_ = 0;
  std::uint32_t parity_ = 0;
};

/// The pieces of a row, each as long as a stage.
struct MoePieces {
  std::int32_t row_bytes;
  std::int32_t piece_bytes;

  [[nodiscard]] __device__ std::int32_t count() const { return (row_bytes + piece_bytes - 1) / piece_bytes; }
  [[nodiscard]] __device__ std::int32_t bytes(std::int32_t piece) const {
    return min(piece_bytes, row_bytes - piece * piece_bytes);
  }
};

/// Calls visit(k) for each set bit of a mask that is the same in all lanes, from the lowest on.
template <class Visit>
__device__ inline void each_bit(std::uint32_t mask, const Visit& visit) {
#pragma unroll 1
  while (mask != 0U) {
    visit(__ffs(static_cast<std::int32_t>(mask)) - 1);
    mask &= mask - 1U;
  }
}

/// Broadcasts an address from one lane.
template <class Type>
__device__ inline Type* from_lane(Type* pointer, std::int32_t lane) {
  return reinterpret_cast<Type*>(__shfl_sync(0xFFFFFFFFU, reinterpret_cast<unsigned long long>(pointer), lane));
}

/// Value that a flag has reached when `tokens` tokens of that call have arrived.
__device__ inline std::uint32_t flag_value(std::uint32_t epoch, std::uint32_t tokens) {
  return (epoch << MoeExchangePad::flag_shift) + tokens;
}

}  // namespace xstage::kernels
