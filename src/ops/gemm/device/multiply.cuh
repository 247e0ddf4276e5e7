#pragma once
// Warpgroups 1 and 2 of the GEMM kernel: they multiply, then stage the result chunk by chunk.

#include <cutlass/arch/reg_reconfig.h>

#include "ops/gemm/device/context.cuh"
#include "ops/gemm/device/exchange.cuh"
#include "ops/gemm/device/heads.cuh"
#include "tile/epilogue.cuh"

namespace xstage::kernels {

/// `Transforms` compiles bias, activations, gates and steps on heads in. They are most of the kernel's code, and cold
/// code costs microseconds at the start of a launch, so GEMMs without them use the other instantiation.
template <int TileColumns, bool Transforms, class Probe>
class MultiplyWarpgroup {
 public:
  static constexpr std::size_t accumulators = MainLoop<TileColumns>::accumulators;
  using Accumulators = float (&)[accumulators];

  __device__ MultiplyWarpgroup(const GemmLaunch& launch, const GemmPlace& place, int half)
      : launch_(launch),
        place_(place),
        shared_(launch),
        half_(half),
        probe_(shared_.probes(), half == 0 ? SpanRole::multiply_first : SpanRole::multiply_second) {}

  __device__ void run() {
    if constexpr (Transforms) {
      await_kernel_before();  // the kernel before may have written bias, weights of a norm, or the rotary table
    }
    float accumulator[accumulators];
    RingPosition position;
    std::uint32_t number = 0;
#pragma unroll 1
    for (std::int32_t index = place_.cluster; index < launch_.schedule.cluster_tiles(); index += place_.clusters) {
      begin_span();
      MainLoop<TileColumns>::multiply(accumulator, shared_.ring(), position, launch_.depth_blocks, half_,
                                      static_cast<std::uint32_t>(launch_.cluster_size));
      end_span(SpanKind::main_loop, index);
      await_other_half();
      begin_span();
      finish_tile(accumulator, shared_.tiles().tile[number++ % TileRing::places]);
      end_span(SpanKind::stage_tile, index);
    }
  }

 private:
  static constexpr int chunks = TileColumns / chunk_columns;

  __device__ static bool leader() { return threadIdx.x % 128U == 0U; }

  __device__ void begin_span() {
    if (leader()) {
      probe_.begin();
    }
  }

  __device__ void end_span(SpanKind kind, std::int32_t tile) {
    if (leader()) {
      probe_.end(kind, tile);
    }
  }

  /// Waits before results are staged over memory in which the other warpgroup's operands may still lie.
  __device__ void await_other_half() const {
    if (launch_.staging_over_ring != 0 && launch_.warpgroups == 2) {
      asm volatile("bar.sync 3, 256;" ::: "memory");
    }
  }

  __device__ std::uint32_t chunk_address(std::int32_t index) const {
    return cute::cast_smem_ptr_to_uint(shared_.chunk(half_, index));
  }

  __device__ void finish_tile(Accumulators accumulator, const schedule::GemmTile& tile) {
    if (launch_.plain == 0) {
      const GemmRegionTarget& target = launch_.target[tile.region];
      if (target.raw != 0 && target.wide != 0) {
        stage_wide(accumulator);
        return;
      }
      sum_up(accumulator, tile, target);
      // A partial sum leaves as it is: bias and activation belong to the owner's full sum.
      if constexpr (Transforms) {
        if (target.raw == 0) {
          transform(accumulator, tile, target);
        }
      }
    }
    stage(accumulator);
  }

  /// Turns this rank's partial sums into those of all ranks, where the region asks for it.
  __device__ void sum_up(Accumulators accumulator, const schedule::GemmTile& tile, const GemmRegionTarget& target) {
    if constexpr (TileColumns < 256) {  // only narrow tiles, which serve few rows
      if (target.exchange != 0) {
        exchange_registers(accumulator, tile);
        __syncwarp();  // each lane has polled for itself, and stmatrix needs all lanes
        return;
      }
    }
    if (target.reduce != 0) {
      if (target.wide != 0) {
        add_partials<true>(accumulator);
      } else {
        add_partials<false>(accumulator);
      }
    }
  }

  /// Passes `count` chunks from `first` on to the store warp: makes them visible to the TMA unit, then arrives once for
  /// each warp. One fence serves several chunks, because each fence costs a few hundred cycles in which nothing is
  /// multiplied.
  __device__ void hand_over(RingPosition first, int count) {
    cute::tma_store_fence();
    __syncwarp();
    if (threadIdx.x % 32U == 0U) {
      for (int chunk = 0; chunk < count; ++chunk) {
        shared_.barriers().staged[half_][first.index].arrive();
        first.advance(launch_.staging);
      }
    }
  }

  __device__ void transform(Accumulators accumulator, const schedule::GemmTile& tile, const GemmRegionTarget& target) {
    const GemmEpilogue& epilogue = launch_.epilogue;
    if (epilogue.bias != nullptr) {
      add_bias(accumulator, epilogue.bias, target.b_row_begin + tile.column,
               target.b_row_begin + launch_.schedule.region(tile.region).columns);
    }
    if (target.head_steps != 0) {
      const std::int32_t position = epilogue.position_begin + tile.row + 64 * half_ +
                                    static_cast<std::int32_t>(threadIdx.x / 32U % 4U * 16U + threadIdx.x % 32U / 4U);
      if constexpr (TileColumns >= 128) {
        if (epilogue.head_dim == 128) {
          apply_head_steps<128>(accumulator, epilogue, target, position);
        }
      }
      if (epilogue.head_dim == 64) {
        apply_head_steps<64>(accumulator, epilogue, target, position);
      }
    }
    if (epilogue.gated != 0) {
      apply_gate(accumulator, epilogue.activation);
    } else {
      apply_activation(accumulator, epilogue.activation);
    }
  }

  /// Frees a chunk that all threads of the warpgroup have read, so that its place may be loaded again.
  __device__ void give_back(std::int32_t index) {
    // The numbers are literals: with a variable one the compiler reserves all sixteen barriers.
    if (half_ == 0) {
      asm volatile("bar.sync 1, 128;" ::: "memory");
    } else {
      asm volatile("bar.sync 2, 128;" ::: "memory");
    }
    if (leader()) {
      shared_.barriers().vacant[half_][index].arrive();
    }
  }

  /// Exchanges partial sums for few rows, see exchange.cuh. Every rank adds up the same numbers in the same order, from
  /// rank 0 on, with its own ones rounded as the peers see them.
  __device__ void exchange_registers(Accumulators accumulator, const schedule::GemmTile& tile) {
    GemmContext& context = shared_.context();
    const std::int32_t rows = launch_.schedule.region(tile.region).rows - tile.row - 64 * half_;
    if (!tile.inside || !RegisterExchange<accumulators>::takes_part(rows) || !may_exchange(context)) {
      return;
    }
    if (leader()) {
      probe_.delay();
    }
    const RegisterExchange<accumulators> exchange(launch_, context, read_epoch(context),
                                                  half_tile(launch_.schedule, tile, half_));
    exchange.send(accumulator);
    round_to_bf16(accumulator);
    float sum[accumulators] = {};
#pragma unroll 1
    for (std::int32_t rank = 0; rank < launch_.call.world; ++rank) {
      if (rank == launch_.call.rank) {
#pragma unroll
        for (int value = 0; value < static_cast<int>(accumulators); ++value) {
          sum[value] += accumulator[value];
        }
      } else {
        exchange.add(sum, rank);
      }
    }
#pragma unroll
    for (int value = 0; value < static_cast<int>(accumulators); ++value) {
      accumulator[value] = sum[value];
    }
  }

  /// Whether slots may be written: a store warp has polled the peers' entry long before the first tile was multiplied,
  /// and no wait for a peer has given up since.
  __device__ static bool may_exchange(const GemmContext& context) {
    std::uint32_t state = 0;
    do {
      state = load_acquire_shared(&context.may_exchange);
    } while (state == 0U);
    return state == 1U;
  }

  template <bool Wide>
  __device__ void add_next_partial(float* values) {
    shared_.barriers().loaded[half_][used_.index].wait(loaded_parity_.next(used_.index));
    if constexpr (Wide) {
      add_wide_chunk(values, chunk_address(used_.index));
    } else {
      add_chunk(values, chunk_address(used_.index));
    }
    give_back(used_.index);
    used_.advance(launch_.staging);
  }

  /// Adds up all ranks in rank order, in fp32, so that every run gives the same result. The store warp has requested
  /// the peers' chunks in the same order. Ranks 0 and 1 add in place (a + b is b + a); later ranks first add up what
  /// comes before them.
  template <bool Wide>
  __device__ void add_partials(Accumulators accumulator) {
    constexpr int values_each = Wide ? static_cast<int>(chunk_values) / 2 : static_cast<int>(chunk_values);
#pragma unroll
    for (int index = 0; index < static_cast<int>(accumulators) / values_each; ++index) {
      float* values = accumulator + index * values_each;
      std::int32_t rank = 0;
      if (launch_.call.rank >= 2) {
        float before[values_each] = {};
        for (; rank < launch_.call.rank; ++rank) {
          add_next_partial<Wide>(before);
        }
#pragma unroll
        for (int value = 0; value < values_each; ++value) {
          values[value] += before[value];
        }
        ++rank;
      }
      for (; rank < launch_.call.world; ++rank) {
        if (rank != launch_.call.rank) {
          add_next_partial<Wide>(values);
        }
      }
    }
  }

  /// Stages partial sums in fp32. They take at least twice as many chunks as there are places, so they are staged one
  /// at a time.
  __device__ void stage_wide(Accumulators accumulator) {
    constexpr int values_each = static_cast<int>(chunk_values) / 2;
#pragma unroll
    for (int index = 0; index < static_cast<int>(accumulators) / values_each; ++index) {
      shared_.barriers().vacant[half_][used_.index].wait(used_.parity ^ 1U);
      stage_wide_chunk(accumulator + index * values_each, chunk_address(used_.index));
      hand_over(used_, 1);
      used_.advance(launch_.staging);
    }
  }

  __device__ void stage(Accumulators accumulator) {
    const int leaving = Transforms && launch_.epilogue.gated != 0 ? chunks / 2 : chunks;
    // One fence serves all chunks if all have a place. Otherwise each has its own: a batch must not need the place of a
    // chunk that the store warp frees only after the batch has been passed on.
    const int batch = launch_.staging >= leaving ? leaving : 1;
    RingPosition first = used_;
    int waiting = 0;
#pragma unroll
    for (int index = 0; index < chunks; ++index) {
      if (index < leaving) {
        shared_.barriers().vacant[half_][used_.index].wait(used_.parity ^ 1U);
        stage_chunk(accumulator + static_cast<std::size_t>(index) * chunk_values, chunk_address(used_.index));
        used_.advance(launch_.staging);
        if (++waiting == batch || index == leaving - 1) {
          hand_over(first, waiting);
          first = used_;
          waiting = 0;
        }
      }
    }
  }

  const GemmLaunch& launch_;
  const GemmPlace place_;
  const SharedMemory shared_;
  const int half_;
  Probe probe_;
  RingPosition used_;  // next place of the ring
  BarrierParities loaded_parity_;
};

}  // namespace xstage::kernels
