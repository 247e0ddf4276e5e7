#pragma once
// Waits for operands that a projection's all-to-all stores tile by tile (xstage/tile_arrivals.hpp). A store warp, which
// has nothing to store yet, polls the flags of this CTA's first tile, 32 at a time, and publishes to the loader how far
// it may load. Then it polls the flags of all other tiles, which the CTA needs only one main loop later.
//
//   keys of the first tile   | ... | group 1 | group 0 |    loaded from the last to the first
//   arrived_from                     <-------+---------     the first of the blocks that have arrived
//
// The loader has neither the registers nor the time to poll: a poll takes most of a microsecond, and a block takes two.

#include "fabric/call.cuh"
#include "ops/attention/device/shared.cuh"

namespace xstage::kernels {

/// Waits in the loader until `block` of the first tile has arrived, or, for everything_arrived, all operands.
template <int HeadDim>
__device__ inline void await_input(std::int32_t block) {
  while (static_cast<std::int32_t>(load_acquire_shared(&AttentionShared<HeadDim>::barriers().arrived_from)) > block) {
  }
}

/// The polling role, one warp. Helpers have 32 registers a thread, so each step computes its request anew.
template <int HeadDim>
class InputWatch {
 public:
  __device__ InputWatch(const AttentionLaunch& launch, std::int32_t block)
      : launch_(launch), call_(launch.call, block), block_(block) {}

  /// The steps are: the first tile's queries; keys and values of its groups in turn; all of query, key and value.
  __device__ void run() {
    if (launch_.inputs.next_call == nullptr) {
      return;
    }
    number_ = load_relaxed(launch_.inputs.next_call) - 1U;
    const std::int32_t last_blocks = block_ < launch_.whole_tiles ? launch_.schedule.tile(block_).block_end : 0;
    const std::int32_t groups = (last_blocks + group_blocks - 1) / group_blocks;
#pragma unroll 1
    for (std::int32_t step = groups > 0 ? 0 : 1; step < 1 + 2 * groups + 3; ++step) {
      // Blocks of the first tile that are still to come after this step.
      const std::int32_t left = last_blocks - step / 2 * group_blocks;
      await(ask(step, groups));
      if (step <= 2 * groups && step % 2 == 0) {
        publish(max(left, 0));
      }
    }
    publish(everything_arrived);
  }

 private:
  /// Blocks of a group, 512 keys: one warp polls their flags at once.
  static constexpr std::int32_t group_blocks = 4;

  /// Rows of part 0, 1 or 2 (query, key, value) in one column of tiles, or in all columns.
  struct Request {
    std::int32_t part;
    std::int32_t begin;
    std::int32_t end;
    std::int32_t column;  // -1: all
  };

  [[nodiscard]] __device__ Request ask(std::int32_t step, std::int32_t groups) const {
    const std::int32_t rows = launch_.schedule.shape().rows;
    if (step > 2 * groups) {
      const std::int32_t part = step - 2 * groups - 1;
      return {part, 0, rows, -1};
    }
    const schedule::AttentionTile tile = launch_.schedule.tile(block_);
    if (step == 0) {
      return {0, max(tile.row, 0), min(tile.row + attention_tile_rows, rows), column_of(tile.head)};
    }
    const std::int32_t end = tile.block_end - (step - 1) / 2 * group_blocks;
    return {2 - step % 2, max(end - group_blocks, 0) * attention_block_keys, min(end * attention_block_keys, rows),
            column_of(tile.key_head)};
  }

  /// Column of tiles that holds a head; a tile holds whole heads.
  [[nodiscard]] __device__ std::int32_t column_of(std::int32_t head) const {
    return head * HeadDim / launch_.inputs.tile_columns;
  }

  __device__ void await(const Request& request) {
    const AttentionInputs& inputs = launch_.inputs;
    const std::int32_t column_tiles = inputs.column_tiles[request.part];
    std::int32_t source = request.begin / inputs.source_rows;
#pragma unroll 1
    for (std::int32_t begin = request.begin; begin < request.end; ++source) {
      const std::int32_t within = begin - source * inputs.source_rows;
      const std::int32_t rows = min(request.end - begin, inputs.source_rows - within);
      const std::int32_t stride = request.column < 0 ? 1 : column_tiles;
      const std::int32_t flags = ((within + rows + 63) / 64 - within / 64) * (request.column < 0 ? column_tiles : 1);
      const std::int32_t first = source * inputs.source_flags + within / 64 * column_tiles + max(request.column, 0);
#pragma unroll 1
      for (std::int32_t index = lane(); index < flags; index += 32) {
        const std::int32_t place = first + index * stride;
        // If the wait gives up, the loader continues with wrong operands, so that the CTA comes to its end.
        static_cast<void>(wait_at_least(call_.waits(),
                                        {WaitSite::input_tile, source, static_cast<std::uint32_t>(place), number_},
                                        inputs.flags[request.part] + place, number_));
      }
      begin += rows;
    }
  }

  __device__ void publish(std::int32_t arrived_from) {
    fence_acquire();
    fence_async_proxy();
    __syncwarp();
    if (lane() == 0) {
      store_release_shared(&AttentionShared<HeadDim>::barriers().arrived_from,
                           static_cast<std::uint32_t>(arrived_from));
    }
  }

  __device__ static std::int32_t lane() { return static_cast<std::int32_t>(threadIdx.x % 32U); }

  const AttentionLaunch& launch_;
  const CollectiveCall call_;
  const std::int32_t block_;
  std::uint32_t number_ = 0;  // number of the projection's call
};

}  // namespace xstage::kernels
