#pragma once
// The two multiplying warpgroups of attention, 64 query rows each.
//
// While the tensor cores work on one block's probabilities x values and the next block's queries x keys, the other
// units do the softmax:
//
//   warpgroup 1   | S(j+1) P(j)V(j) |   softmax(j+1)   | S(j+2) P(j+1)V(j+1) |  softmax(j+2)   |
//   warpgroup 2   |   softmax(j)    | S(j+1) P(j)V(j)  |    softmax(j+1)     | S(j+2) ...
//
// Named barriers pass the turn for the tensor cores between the two; without them both would do their softmax at the
// same time.

#include "kernels/attention/attention_shared.cuh"
#include "kernels/attention/matrix_multiply.cuh"
#include "kernels/attention/softmax.cuh"

#ifdef CLK
__device__ unsigned long long clk_sum[16];
#define TICK(i) { unsigned now = clock(); sums[i] += now - last; last = now; }
#else
#define TICK(i)
#endif
namespace xstage::kernels {

#ifndef PINGPONG
#define PINGPONG 1
#endif
#ifndef ORDER
#define ORDER 3
#endif
#ifndef SPLIT
#define SPLIT 0
#endif
#ifndef LAZY
#define LAZY 0
#endif

template <class Tile, class Element>
class AttentionWarpgroup {
 public:
  using Products = AttentionProducts<Tile, Element>;

  __device__ AttentionWarpgroup(const AttentionLaunch& launch, int warpgroup)
      : launch_(launch), warpgroup_(warpgroup), softmax_(launch.scale_log2) {}

  __device__ void run() {
    if (PINGPONG && Tile::warpgroups == 2 && warpgroup_ == 1) {
      pass_turn();  // the first turn is warpgroup 0's
    }
#ifdef CLK
    long long begin_clock = clock64(); unsigned long long begin_time; asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin_time)); last = clock();
#endif
    AttentionBarriers& barriers = shared_.barriers();
    std::uint32_t parity = 0;
#pragma unroll 1
    for (;;) {
      barriers.query_full.wait(parity);
      parity ^= 1U;
      const schedule::AttentionWork work = barriers.work;
      if (work.block_end == 0) {
        break;
      }
      if constexpr (Tile::warpgroups == 3) {
        attend_in_turn(work);
      } else {
        attend(work);
      }
    }
    if (leader()) {
      asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
#ifdef CLK
      unsigned long long t; asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
      if (blockIdx.x == 5 && warpgroup_ == 0) { for (int i = 0; i < 12; ++i) clk_sum[i] += sums[i]; clk_sum[12] += clock64() - begin_clock; clk_sum[13] += t - begin_time; clk_sum[14] += 1; }
#endif
    }
  }

 private:
  static constexpr int score_values = Products::score_values;
  static constexpr int output_values = Products::output_values;

  __device__ static bool leader() { return threadIdx.x % 128U == 0U; }

  __device__ void await_turn() const {
    if (!PINGPONG) return;
    // Two literal numbers: with a variable one the compiler reserves all sixteen barriers.
    if (warpgroup_ == 0) {
      asm volatile("bar.sync 1, 256;" ::: "memory");
    } else {
      asm volatile("bar.sync 2, 256;" ::: "memory");
    }
  }

  __device__ void pass_turn() const {
    if (!PINGPONG) return;
    if (warpgroup_ == 0) {
      asm volatile("bar.arrive 2, 256;" ::: "memory");
    } else {
      asm volatile("bar.arrive 1, 256;" ::: "memory");
    }
  }

  __device__ void sync_warpgroup() const {
    if (warpgroup_ == 0) {
      asm volatile("bar.sync 3, 128;" ::: "memory");
    } else if (warpgroup_ == 2) {
      asm volatile("bar.sync 5, 128;" ::: "memory");
    } else {
      asm volatile("bar.sync 4, 128;" ::: "memory");
    }
  }

  __device__ void attend(const schedule::AttentionWork& work) {
    AttentionBarriers& barriers = shared_.barriers();
    float output[output_values];
#pragma unroll
    for (int index = 0; index < output_values; ++index) {
      output[index] = 0.0F;
    }
    float scores[score_values];
    std::uint32_t probabilities[Products::pairs];
    float correction[2];
    softmax_.start();

    TICK(10)
    std::int32_t block = work.block_end - 1;
    barriers.key_full[key_position_.index()].wait(key_position_.parity());
    Products::multiply_scores(scores, shared_.query(warpgroup_), shared_.key(key_position_.index()));
    cute::warpgroup_wait<0>();
    Products::fence(scores);
    release_to_cluster(barriers.key_empty[key_position_.index()]);
    key_position_.advance();
    mask(scores, work, block);
    softmax_.next_block(scores, correction);
    softmax_.add_up(scores, correction);
    pack(probabilities, scores);

    TICK(11)
#pragma unroll 1
    for (--block; block >= work.block_begin; --block) {
      TICK(0)
      barriers.key_full[key_position_.index()].wait(key_position_.parity());
      TICK(1)
      await_turn();
      TICK(2)
      Products::multiply_scores(scores, shared_.query(warpgroup_), shared_.key(key_position_.index()));
      barriers.value_full[value_position_.index()].wait(value_position_.parity());
      TICK(3)
      Products::multiply_output(output, probabilities, shared_.value(value_position_.index()));
      pass_turn();
      TICK(4)
      cute::warpgroup_wait<1>();
      TICK(5)
      Products::fence(scores);
      release_to_cluster(barriers.key_empty[key_position_.index()]);
      key_position_.advance();
      mask(scores, work, block);
      softmax_.next_block(scores, correction);
#if ORDER
      Products::fence(scores);
#endif
#if ORDER == 3
      barriers.value_full[value_position_.index()].wait(value_position_.parity());
#endif
      TICK(6)
      cute::warpgroup_wait<0>();
      TICK(7)
      Products::fence(output);
      release_to_cluster(barriers.value_empty[value_position_.index()]);
      value_position_.advance();
      softmax_.add_up(scores, correction);
      pack(probabilities, scores);
#if defined(NORESCALE)
#elif LAZY
      if (__any_sync(0xFFFFFFFFU, correction[0] != 1.0F || correction[1] != 1.0F)) {
        rescale(output, correction);
      }
#else
      rescale(output, correction);
#endif
    }
    TICK(0)
    release(barriers.query_empty);
    barriers.value_full[value_position_.index()].wait(value_position_.parity());
    Products::multiply_output(output, probabilities, shared_.value(value_position_.index()));
    cute::warpgroup_wait<0>();
    Products::fence(output);
    release_to_cluster(barriers.value_empty[value_position_.index()]);
    value_position_.advance();
    TICK(8)
    finish(output, work);
    TICK(9)
  }

  __device__ void attend_in_turn(const schedule::AttentionWork& work) {
    AttentionBarriers& barriers = shared_.barriers();
    float output[output_values];
#pragma unroll
    for (int index = 0; index < output_values; ++index) {
      output[index] = 0.0F;
    }
    softmax_.start();
#pragma unroll 1
    for (std::int32_t block = work.block_end - 1; block >= work.block_begin; --block) {
      float scores[score_values];
      std::uint32_t probabilities[Products::pairs];
      float correction[2];
      TICK(0)
      barriers.key_full[key_position_.index()].wait(key_position_.parity());
      TICK(1)
      Products::multiply_scores(scores, shared_.query(warpgroup_), shared_.key(key_position_.index()));
      TICK(2)
      cute::warpgroup_wait<0>();
      Products::fence(scores);
      TICK(3)
      release_to_cluster(barriers.key_empty[key_position_.index()]);
      key_position_.advance();
      mask(scores, work, block);
#if SPLIT
      float reference[2];
      softmax_.raise_maximum(scores, correction, reference);
      constexpr int steps = Tile::block_keys / 16;
      constexpr int first_steps = SPLIT;
      softmax_.template exponentiate<0, 2 * first_steps>(scores, reference);
      rescale(output, correction);
#ifndef SUMLATE
      softmax_.template add_range<0, 2 * first_steps>(scores);
#endif
      std::uint32_t early[4 * first_steps];
#pragma unroll
      for (int pair = 0; pair < 4 * first_steps; ++pair) early[pair] = pack_pair<Element>(scores[2 * pair], scores[2 * pair + 1]);
      barriers.value_full[value_position_.index()].wait(value_position_.parity());
      Products::template multiply_part<0, first_steps>(output, early, shared_.value(value_position_.index()));
      softmax_.template exponentiate<2 * first_steps, 2 * steps>(scores, reference);
#ifdef SUMLATE
      softmax_.template add_range<0, 2 * steps>(scores);
#else
      softmax_.template add_range<2 * first_steps, 2 * steps>(scores);
#endif
      std::uint32_t late[4 * (steps - first_steps)];
#pragma unroll
      for (int pair = 0; pair < 4 * (steps - first_steps); ++pair) late[pair] = pack_pair<Element>(scores[8 * first_steps + 2 * pair], scores[8 * first_steps + 2 * pair + 1]);
      Products::template multiply_part<first_steps, steps>(output, late, shared_.value(value_position_.index()));
      cute::warpgroup_wait<0>();
      Products::fence(output);
#else
      softmax_.next_block(scores, correction);
      TICK(4)
#if LAZY
      if (__any_sync(0xFFFFFFFFU, correction[0] != 1.0F || correction[1] != 1.0F)) {
        rescale(output, correction);
      }
#else
      rescale(output, correction);
#endif
      softmax_.add_up(scores, correction);
      pack(probabilities, scores);
      TICK(5)
      barriers.value_full[value_position_.index()].wait(value_position_.parity());
      TICK(6)
      Products::multiply_output(output, probabilities, shared_.value(value_position_.index()));
      TICK(7)
      cute::warpgroup_wait<0>();
      Products::fence(output);
      TICK(8)
#endif
      release_to_cluster(barriers.value_empty[value_position_.index()]);
      value_position_.advance();
    }
    release(barriers.query_empty);
    TICK(0)
    finish(output, work);
    TICK(9)
  }

  __device__ static void release(ArrivalBarrier& barrier) {
    if (leader()) {
      barrier.arrive();
    }
  }

  /// Thread i of the warpgroup tells CTA i of the cluster.
  __device__ void release_to_cluster(ArrivalBarrier& barrier) const {
    const std::uint32_t thread = threadIdx.x % 128U;
    if (thread < static_cast<std::uint32_t>(launch_.cluster_size)) {
      barrier.arrive(thread);
    }
  }

  __device__ static std::int32_t thread_row() {
    return static_cast<std::int32_t>(threadIdx.x % 128U / 32U * 16U + threadIdx.x % 32U / 4U);
  }

  __device__ void mask(float (&scores)[score_values], const schedule::AttentionWork& work, std::int32_t block) const {
    const schedule::AttentionShape& shape = launch_.schedule.shape();
    const std::int32_t first_key = block * Tile::block_keys;
    const std::int32_t first_row = work.row + 64 * warpgroup_;
    const bool whole = first_key + Tile::block_keys <= shape.keys &&
                       (shape.causal == 0 || first_key + Tile::block_keys <= first_row + 1);
    if (whole) {
      return;
    }
    const std::int32_t mine = first_key + 2 * static_cast<std::int32_t>(threadIdx.x % 4U);
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      std::int32_t seen = shape.keys;
      if (shape.causal != 0) {
        seen = min(seen, first_row + thread_row() + 8 * row + 1);
      }
      const std::int32_t limit = seen - mine;
#pragma unroll
      for (int value = 0; value < score_values / 2; ++value) {
        const int key = 8 * (value / 2) + value % 2;
        if (key >= limit) {
          scores[4 * (value / 2) + 2 * row + value % 2] = -INFINITY;
        }
      }
    }
  }

  __device__ static void pack(std::uint32_t (&probabilities)[Products::pairs], const float (&scores)[score_values]) {
#pragma unroll
    for (int pair = 0; pair < Products::pairs; ++pair) {
      probabilities[pair] = pack_pair<Element>(scores[2 * pair], scores[2 * pair + 1]);
    }
  }

  __device__ static void rescale(float (&output)[output_values], const float (&correction)[2]) {
#pragma unroll
    for (int index = 0; index < output_values; ++index) {
      output[index] *= correction[index / 2 % 2];
    }
  }

  /// Sums are divided by, results staged and stored; the next tile may begin while they leave.
  __device__ void finish(float (&output)[output_values], const schedule::AttentionWork& work) {
    const schedule::AttentionShape& shape = launch_.schedule.shape();
    float factor[2];
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const float total = softmax_.total(row);
      factor[row] = total > 0.0F ? __fdividef(1.0F, total) : 0.0F;
      const std::int32_t at = work.row + 64 * warpgroup_ + thread_row() + 8 * row;
      if (launch_.log_sum_exp != nullptr && threadIdx.x % 4U == 0U && at < shape.rows) {
        const std::int64_t line = static_cast<std::int64_t>(work.sequence) * shape.heads + work.head;
        launch_.log_sum_exp[line * shape.rows + at] = softmax_.log_sum_exp(row, total);
      }
    }
    if (leader()) {
      asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    }
    sync_warpgroup();
    stage(output, factor);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    sync_warpgroup();
    if (leader()) {
      store(work);
    }
  }

  /// Into [halves][64 rows][64], 128-byte swizzle: of a row's eight 16-byte units, unit u lies at u ^ (row % 8).
  __device__ void stage(float (&output)[output_values], const float (&factor)[2]) const {
    const std::uint32_t lane = threadIdx.x % 32U;
    const std::uint32_t warp = threadIdx.x % 128U / 32U;
    // stmatrix: lane l gives the address of row l % 8 of matrix l / 8; matrices are (rows 0-7, rows 8-15) of columns
    // 8b to 8b + 7, then of 8b + 8 to 8b + 15.
    const std::uint32_t row = 16U * warp + lane % 16U;
    const std::uint32_t unit = lane / 16U;
    const std::uint32_t line = shared_.staging(warpgroup_) + row * 128U;
#pragma unroll
    for (int pair = 0; pair < output_values / 8; ++pair) {
      const std::uint32_t half = static_cast<std::uint32_t>(pair) / 4U;
      const std::uint32_t column_unit = static_cast<std::uint32_t>(pair) % 4U * 2U + unit;
      const std::uint32_t address = line + half * Tile::staging_half_bytes + ((column_unit ^ (row % 8U)) * 16U);
      const float* values = output + static_cast<std::ptrdiff_t>(8) * pair;
      asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
                   "r"(pack_pair<Element>(values[0] * factor[0], values[1] * factor[0])),
                   "r"(pack_pair<Element>(values[2] * factor[1], values[3] * factor[1])),
                   "r"(pack_pair<Element>(values[4] * factor[0], values[5] * factor[0])),
                   "r"(pack_pair<Element>(values[6] * factor[1], values[7] * factor[1]))
                   : "memory");
    }
  }

  /// To every destination that owns some of the rows; the maps clip what lies outside.
  __device__ void store(const schedule::AttentionWork& work) const {
    const std::int32_t row = work.row + 64 * warpgroup_;
    for (std::int32_t destination = 0; destination < launch_.destinations; ++destination) {
      if (row < launch_.row_begin[destination + 1] && row + 64 > launch_.row_begin[destination]) {
        asm volatile(
            "cp.async.bulk.tensor.5d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5, %6}], [%1];" ::"l"(
                &launch_.output[destination]),
            "r"(shared_.staging(warpgroup_)), "r"(0), "r"(row - launch_.row_begin[destination]), "r"(0),
            "r"(launch_.first_head + work.head), "r"(work.sequence)
            : "memory");
      }
    }
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
  }

#ifdef CLK
  unsigned sums[12] = {}; unsigned last;
#endif
  const AttentionLaunch& launch_;
  const AttentionShared<Tile> shared_;
  const int warpgroup_;
  OnlineSoftmax<score_values> softmax_;
  StagePosition key_position_;
  StagePosition value_position_;
};

}  // namespace xstage::kernels
