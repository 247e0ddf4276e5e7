#pragma once
// A multiplying warpgroup of attention: 64 query rows against all their keys.
//
//   scores = query x key | maximum | exponentials, first half | second half      |
//                                                             | += first x value | += second x value | next block
//
// The first half of the probabilities is multiplied while the exponentials of the second half are computed. For the
// rest of the time the tensor cores work for the other two warpgroups: nothing orders the three warpgroups, which fall
// out of step by themselves.

#include "ops/attention/device/part_exchange.cuh"
#include "ops/attention/device/products.cuh"
#include "ops/attention/device/shared.cuh"
#include "ops/attention/device/softmax.cuh"

namespace xstage::kernels {

template <int HeadDim, class Element, class Probe>
class AttendWarpgroup {
 public:
  using Layout = AttentionLayout<HeadDim>;
  using Shared = AttentionShared<HeadDim>;
  using Products = AttentionProducts<HeadDim, Element>;

  __device__ AttendWarpgroup(const AttentionLaunch& launch, int warpgroup)
      : launch_(launch),
        warpgroup_(warpgroup),
        softmax_(launch.scale_log2),
        parts_(launch.split, warpgroup),
        probe_(Shared::barriers().probes, warpgroup == 0 ? SpanRole::multiply_first : SpanRole::multiply_second) {}

  __device__ void run() {
    std::uint32_t parity = 0;
#pragma unroll 1
    for (;;) {
      Shared::barriers().query_full[warpgroup_].wait(parity);
      const schedule::AttentionShare work = Shared::barriers().work[parity][warpgroup_];
      if (work.tile.block_end == 0) {
        break;
      }
      attend(work, Shared::barriers().follows[parity]);
      parity ^= 1U;
    }
    await_vacant();
    hand_over({-1, 0, 0, 0});
  }

 private:
  static constexpr std::size_t score_values = Products::score_values;
  static constexpr std::size_t output_values = Products::output_values;
  static constexpr std::size_t early_steps = Products::steps / 2;
  using Output = float (&)[output_values];
  using Scores = float (&)[score_values];

  __device__ static bool leader() { return threadIdx.x % 128U == 0U; }
  /// A trace has two tracks for the three warpgroups; the third one behaves like the second and is not recorded.
  __device__ bool recording() const { return leader() && warpgroup_ < 2; }

  /// `follows` lies in shared memory and is valid when the last values have arrived.
  __device__ void attend(const schedule::AttentionShare& work, const std::uint32_t& follows) {
    const schedule::AttentionTile& tile = work.tile;
    if (recording()) {
      probe_.begin();
    }
    const std::int32_t row = tile.row + warpgroup_rows * warpgroup_;
    // Rows outside of the sequence, and blocks behind the causal diagonal of the last row, need no work.
    const bool rows_exist = row >= 0 && row < launch_.schedule.shape().rows;
    const std::int32_t end =
        rows_exist ? min(launch_.schedule.blocks_of_rows(row + warpgroup_rows), tile.block_end) : tile.block_begin;
    float output[output_values];
#pragma unroll
    for (std::size_t index = 0; index < output_values; ++index) {
      output[index] = 0.0F;
    }
    softmax_.start();
#pragma unroll 1
    for (std::int32_t block = tile.block_end; block > end; --block) {
      pass_over();
    }
#pragma unroll 1
    for (std::int32_t block = end - 1; block >= tile.block_begin; --block) {
      attend_block(output, row, block, block == tile.block_begin);
    }
    if (!rows_exist) {
      release(Shared::barriers().query_empty[warpgroup_]);
    }
    if (recording()) {
      probe_.end(SpanKind::main_loop, tile.head);
    }
    if (rows_exist && (work.parts == 1 || parts_.merge(output, softmax_, work))) {
      finish(output, {row, tile.head, tile.sequence, follows});
    }
  }

  /// Skips a block to which none of these rows attends. All four warps must have seen the arrival of the block before
  /// one of them releases it. Where products are computed they keep the warps together, but here nothing else does: a
  /// warp that fell two rounds behind would take the parity of the next round for that of this one and wait for ever.
  __device__ void pass_over() {
    AttentionBarriers& barriers = Shared::barriers();
    barriers.key_full[key_position_.index()].wait(key_position_.parity());
    barriers.value_full[value_position_.index()].wait(value_position_.parity());
    sync_warpgroup(warpgroup_);
    release(barriers.key_empty[key_position_.index()]);
    key_position_.advance();
    release(barriers.value_empty[value_position_.index()]);
    value_position_.advance();
  }

  __device__ void attend_block(Output output, std::int32_t row, std::int32_t block, bool last) {
    AttentionBarriers& barriers = Shared::barriers();
    float scores[score_values];
    const std::uint32_t key_stage = key_position_.index();
    barriers.key_full[key_stage].wait(key_position_.parity());
    Products::multiply_scores(scores, Shared::query(warpgroup_), Shared::key(key_stage));
    cute::warpgroup_wait<0>();
    Products::fence(scores);
    release(barriers.key_empty[key_stage]);
    key_position_.advance();
    if (last) {  // the next tile's queries are loaded while the last block of this tile is computed
      release(barriers.query_empty[warpgroup_]);
    }
    mask(scores, row, block);
    float correction[2];
    softmax_.raise_maximum(scores, correction);
    softmax_.template exponentiate<0, 2 * early_steps>(scores);
    rescale(output, correction);
    std::uint32_t early[Products::step_pairs * early_steps];
    pack<0>(early, scores);
    const std::uint32_t value_stage = value_position_.index();
    barriers.value_full[value_stage].wait(value_position_.parity());
    Products::template multiply_output<0, early_steps>(output, early, Shared::value(value_stage));
    softmax_.template exponentiate<2 * early_steps, 2 * Products::steps>(scores);
    std::uint32_t late[Products::step_pairs * (Products::steps - early_steps)];
    pack<2 * Products::step_pairs * early_steps>(late, scores);
    Products::template multiply_output<early_steps, Products::steps>(output, late, Shared::value(value_stage));
    cute::warpgroup_wait<0>();
    Products::fence(output);
    release(barriers.value_empty[value_stage]);
    value_position_.advance();
  }

  /// Releases an operand that this warpgroup has read, so that it may be loaded again.
  __device__ static void release(ArrivalBarrier& barrier) {
    if (leader()) {
      barrier.arrive();
    }
  }

  /// First of this thread's two rows among the 64 of its warpgroup; the other one is 8 further.
  __device__ static std::int32_t thread_row() {
    return static_cast<std::int32_t>(threadIdx.x % 128U / 32U * 16U + threadIdx.x % 32U / 4U);
  }

  /// Masks keys behind the last one and behind the causal diagonal.
  __device__ void mask(Scores scores, std::int32_t first_row, std::int32_t block) const {
    const schedule::AttentionShape& shape = launch_.schedule.shape();
    const std::int32_t first_key = block * attention_block_keys;
    const std::int32_t block_end = first_key + attention_block_keys;
    if (block_end <= shape.keys && (shape.causal == 0 || block_end <= first_row + 1)) {
      return;
    }
    const std::int32_t mine = first_key + 2 * static_cast<std::int32_t>(threadIdx.x % 4U);
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const std::int32_t diagonal = first_row + thread_row() + 8 * row + 1;
      const std::int32_t seen = shape.causal != 0 ? min(shape.keys, diagonal) : shape.keys;
#pragma unroll
      for (int value = 0; value < static_cast<int>(score_values) / 2; ++value) {
        if (mine + 8 * (value / 2) + value % 2 >= seen) {
          scores[4 * (value / 2) + 2 * row + value % 2] = -INFINITY;
        }
      }
    }
  }

  /// Converts scores to the operand of the second product: pair by pair, accumulators of the first product are the
  /// fragments of that operand.
  template <std::size_t First, std::size_t Pairs>
  __device__ static void pack(std::uint32_t (&probabilities)[Pairs], Scores scores) {
#pragma unroll
    for (std::size_t pair = 0; pair < Pairs; ++pair) {
      probabilities[pair] = pack_pair<Element>(scores[First + 2 * pair], scores[First + 2 * pair + 1]);
    }
  }

  __device__ static void rescale(Output output, const float (&factor)[2]) {
#pragma unroll
    for (std::size_t index = 0; index < output_values; ++index) {
      output[index] *= factor[index / 2 % 2];
    }
  }

  /// Divides the output by the sums and stages it; the next tile may begin while the store warp sends it.
  __device__ void finish(Output output, const Slab& slab) {
    float factor[2];
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const float total = softmax_.total(row);
      factor[row] = __fdividef(1.0F, total);
      write_log_sum_exp(slab, row, total);
    }
    rescale(output, factor);
    if (recording()) {
      probe_.begin();
    }
    await_vacant();
    stage(output);
    hand_over(slab);
    if (recording()) {
      probe_.end(SpanKind::stage_tile, slab.head);
    }
  }

  __device__ void write_log_sum_exp(const Slab& slab, int row, float total) const {
    const schedule::AttentionShape& shape = launch_.schedule.shape();
    const std::int32_t at = slab.row + thread_row() + 8 * row;
    if (launch_.log_sum_exp != nullptr && threadIdx.x % 4U == 0U && at < shape.rows) {
      const std::int64_t line = static_cast<std::int64_t>(slab.sequence) * shape.heads + slab.head;
      launch_.log_sum_exp[line * shape.rows + at] = softmax_.log_sum_exp(row, total);
    }
  }

  __device__ void await_vacant() {
    Shared::barriers().vacant[warpgroup_].wait(vacant_parity_ ^ 1U);
    vacant_parity_ ^= 1U;
  }

  /// Makes staged results visible to the TMA unit, and arrives at the barrier once for each warp.
  __device__ void hand_over(const Slab& slab) {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncwarp();
    if (leader()) {
      Shared::barriers().slab[warpgroup_] = slab;
    }
    if (threadIdx.x % 32U == 0U) {
      Shared::barriers().staged[warpgroup_].arrive();
    }
  }

  /// Stages the output as [halves][64 rows][64] with the 128-byte swizzle: 16-byte unit u of a row lies at u ^ (row %
  /// 8).
  __device__ void stage(Output output) const {
    const std::uint32_t lane = threadIdx.x % 32U;
    // Lane l passes stmatrix the address of row l % 8 of matrix l / 8. The matrices are rows 0-7 and 8-15 of columns 8
    // b to 8 b + 7, then of columns 8 b + 8 to 8 b + 15.
    const std::uint32_t row = threadIdx.x % 128U / 32U * 16U + lane % 16U;
    const std::uint32_t line = Shared::results(warpgroup_) + row * 128U;
#pragma unroll
    for (std::size_t pair = 0; pair < output_values / 8; ++pair) {
      const std::uint32_t unit = static_cast<std::uint32_t>(pair) % 4U * 2U + lane / 16U;
      const std::uint32_t address =
          line + static_cast<std::uint32_t>(pair) / 4U * Layout::slab_half_bytes + ((unit ^ (row % 8U)) * 16U);
      const float* values = output + 8 * pair;
      asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
                   "r"(pack_pair<Element>(values[0], values[1])), "r"(pack_pair<Element>(values[2], values[3])),
                   "r"(pack_pair<Element>(values[4], values[5])), "r"(pack_pair<Element>(values[6], values[7]))
                   : "memory");
    }
  }

  const AttentionLaunch& launch_;
  const int warpgroup_;
  OnlineSoftmax<score_values> softmax_;
  const PartExchange<HeadDim> parts_;
  Probe probe_;
  StagePosition key_position_;
  StagePosition value_position_;
  std::uint32_t vacant_parity_ = 0;
};

}  // namespace xstage::kernels
