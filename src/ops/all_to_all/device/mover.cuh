#pragma once
// The thread of a CTA that moves its chunks: loads run ahead of stores by a ring of stages.
//
//   input --bulk load--> stage 0 | 1 | ... --bulk store of each row, or one tensor store--> result of a peer or own one
//
// In steady state the stores of two chunks are in flight, and all other stages are loaded or being loaded.

#include <cute/arch/config.hpp>
//
#include <cutlass/arch/barrier.h>
#include <cute/arch/copy_sm90_desc.hpp>
#include <cute/arch/copy_sm90_tma.hpp>

#include "fabric/call.cuh"
#include "ops/all_to_all/device/layout.hpp"
#include "ops/all_to_all/device/parameters.hpp"

namespace xstage::kernels {

/// Position in the ring: a stage, and the parity of its round.
struct StagePlace {
  std::int32_t stage = 0;
  std::uint32_t parity = 0;

  __device__ void advance(std::int32_t stages) {
    if (++stage == stages) {
      stage = 0;
      parity ^= 1U;
    }
  }
};

/// Shared memory: barriers, then the stages.
class AllToAllShared {
 public:
  using Barrier = cutlass::arch::ClusterTransactionBarrier;
  static constexpr std::int32_t stages_offset = 128;  // alignment that tensor stores require of their source
  static_assert(sizeof(Barrier) * all_to_all::most_stages <= stages_offset);

  [[nodiscard]] __device__ static Barrier& loaded(std::int32_t stage) {
    return reinterpret_cast<Barrier*>(base())[stage];
  }
  [[nodiscard]] __device__ static char* stage(std::int32_t number, std::int32_t bytes) {
    return base() + stages_offset + number * bytes;
  }

 private:
  [[nodiscard]] __device__ static char* base() {
    extern __shared__ __align__(128) char all_to_all_shared[];
    return all_to_all_shared;
  }
};

class AllToAllMover {
 public:
  using Shared = AllToAllShared;

  __device__ AllToAllMover(const AllToAllLaunch& launch, std::int32_t block)
      : launch_(launch), block_(block), share_(launch.schedule.share(block)) {}

  /// May run before the preceding kernel in the stream has ended.
  __device__ void prepare() const {
#pragma unroll 1
    for (std::int32_t stage = 0; stage < launch_.stages; ++stage) {
      Shared::loaded(stage).init(1);
    }
    cutlass::arch::fence_barrier_init();
  }

  /// Whether peers wait for a signal of this CTA.
  [[nodiscard]] __device__ bool serves_peers() const { return block_ < launch_.schedule.tiling().peer_blocks; }
  [[nodiscard]] __device__ bool stores_to_peers() const { return share_.peer_chunks > 0; }

  /// Loads as many chunks as there are stages, without a wait: the input is this rank's own.
  __device__ void load_first() {
#pragma unroll 1
    while (loaded_ < share_.chunks && loaded_ < launch_.stages) {
      load_next();
    }
  }

  __device__ void move() {
    StagePlace place;
#pragma unroll 1
    for (std::int32_t number = 0; number < share_.chunks; ++number) {
      Shared::loaded(place.stage).wait(place.parity);
      store(number, place.stage);
      commit_bulk_stores();
      place.advance(launch_.stages);
      if (number >= all_to_all::stores_under_way && loaded_ < share_.chunks) {
        cute::tma_store_wait<all_to_all::stores_under_way>();  // the chunk that the next load overwrites has left
        load_next();
      }
    }
    await_bulk_stores();
  }

  /// Called instead of move() after load_first(): waits for the loads, since no CTA may end with a load in flight.
  __device__ void drop() const {
#pragma unroll 1
    for (std::int32_t stage = 0; stage < loaded_; ++stage) {
      Shared::loaded(stage).wait(0);
    }
  }

 private:
  __device__ void load_next() {
    const schedule::AllToAllChunk chunk = launch_.schedule.chunk(share_, block_, loaded_);
    const auto bytes = static_cast<std::uint32_t>(chunk.rows * launch_.schedule.row_bytes(chunk));
    Shared::Barrier& loaded = Shared::loaded(load_stage_);
    loaded.arrive_and_expect_tx(bytes);
    load(launch_.input + launch_.schedule.source(chunk), Shared::stage(load_stage_, launch_.stage_bytes), bytes,
         loaded);
    ++loaded_;
    if (++load_stage_ == launch_.stages) {
      load_stage_ = 0;
    }
  }

  /// Loads with a hint that the source is read only once, so that L2 keeps the results.
  __device__ static void load(const char* source, char* stage, std::uint32_t bytes, Shared::Barrier& loaded) {
    constexpr auto once = static_cast<std::uint64_t>(cute::TMA::CacheHintSm90::EVICT_FIRST);
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::
            "r"(cute::cast_smem_ptr_to_uint(stage)),
        "l"(source), "r"(bytes), "r"(cute::cast_smem_ptr_to_uint(&loaded)), "l"(once)
        : "memory");
  }

  __device__ void store(std::int32_t number, std::int32_t stage) const {
    const schedule::AllToAllChunk chunk = launch_.schedule.chunk(share_, block_, number);
    const char* source = Shared::stage(stage, launch_.stage_bytes);
    if (launch_.boxes != 0) {
      cute::SM90_TMA_STORE_4D::copy(&launch_.output[chunk.destination], source, 0, chunk.head, chunk.owner_row,
                                    chunk.sequence);
      return;
    }
    char* target = launch_.target[chunk.destination] + launch_.schedule.target(chunk);
    const std::int64_t pitch = launch_.schedule.pitch();
    const std::int32_t bytes = launch_.schedule.row_bytes(chunk);
#pragma unroll 1
    for (std::int32_t row = 0; row < chunk.rows; ++row) {
      cute::SM90_BULK_COPY_S2G::copy(source, target, bytes);
      source += bytes;
      target += pitch;
    }
  }

  const AllToAllLaunch& launch_;
  const std::int32_t block_;
  const schedule::AllToAllShare share_;
  std::int32_t loaded_ = 0;  // chunks
  std::int32_t load_stage_ = 0;
};

}  // namespace xstage::kernels
