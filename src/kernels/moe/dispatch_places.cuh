#pragma once
// Where rows go: every CTA finds out by itself, for the tokens of its senders, from counts.
//
//   count     choices for each expert, before this CTA, in it and on the whole rank  dispatch_counts.cuh
//   publish   this rank's counts to all peers, with the number of the call in the same 8 bytes: no fence, no flag, and
//             who has seen them also knows that the peer has entered the call, so that its rows may be overwritten.
//   gather    all ranks' counts, from which each rank computes the same blocks
//   assign    row of the next choice of each expert, for each sender

#include "kernels/moe/dispatch_counts.cuh"

namespace xstage::kernels {

class DispatchPlaces {
 public:
  __device__ DispatchPlaces(const DispatchLaunch& launch, const DispatchShared& shared, std::int32_t block,
                            std::int32_t blocks)
      : launch_(launch),
        exchange_(launch.exchange),
        shared_(shared),
        call_(launch.exchange.call, block),
        counts_(launch, shared, block, blocks),
        block_(block),
        blocks_(blocks),
        experts_(launch.exchange.experts()) {}

  /// Before the kernel before this one has ended.
  __device__ void prepare() const { counts_.prepare(); }

  /// All threads, after prepare() and a barrier.
  __device__ void count() const {
    if (thread() < DispatchCounts::counting_threads) {
      counts_.count();
    } else if (thread() == DispatchCounts::counting_threads) {
      shared_.words().epoch = begin_call(call_, MoeExchangePad::dispatch_calls, block_);
      fence_release();  // what earlier kernels have read, before publish() lets peers overwrite it
    }
  }

  /// All threads, after count().
  __device__ void publish() const {
    __syncthreads();
    counts_.share();
    publish_counts();
    counts_.add_up();
  }

  /// All threads, after publish(). Ends with a barrier.
  __device__ void find() const {
    gather();
    __syncthreads();
    assign();
    __syncthreads();
  }

 private:
  [[nodiscard]] __device__ static std::int32_t thread() { return static_cast<std::int32_t>(threadIdx.x); }
  /// Whole CTAs, one for each peer. Nothing after a wait that was given up: rows of wrong counts may lie anywhere.
  __device__ void publish_counts() const {
    if (shared_.words().failed != 0) {
      return;
    }
#pragma unroll 1
    for (std::int32_t peer = block_; peer < exchange_.call.world; peer += blocks_) {
      if (peer == exchange_.call.rank) {
        continue;
      }
      std::uint64_t* line = launch_.counts[peer] + exchange_.call.rank * (experts_ + 1);
#pragma unroll 1
      for (std::int32_t index = thread(); index <= experts_; index += dispatch_threads) {
        const std::uint64_t call = std::uint64_t{shared_.words().epoch} << 32U;
        store_word(line + index, call | static_cast<std::uint32_t>(counts_.of_rank(index)));
      }
    }
  }

  /// before(): with the rows of ranks before this one; all(): those of all ranks.
  __device__ void gather() const {
#pragma unroll 1
    for (std::int32_t index = thread(); index <= experts_; index += dispatch_threads) {
      std::int32_t counts[max_world];
      read_counts(index, counts);
      std::int32_t all = 0;
      std::int32_t lower = 0;
#pragma unroll
      for (std::int32_t rank = 0; rank < max_world; ++rank) {
        all += counts[rank];
        lower += rank < exchange_.call.rank ? counts[rank] : 0;
      }
      if (index < experts_) {
        shared_.before()[index] += lower;
        shared_.all()[index] = all;
        continue;
      }
#pragma unroll
      for (std::int32_t rank = 0; rank < max_world; ++rank) {
        shared_.words().tokens_of[rank] = counts[rank];
      }
    }
  }

  /// All ranks' counts under one index, 0 for ranks that do not exist. Waits until they are of this call; bounded like
  /// all waits, and 0 after it has been given up.
  __device__ void read_counts(std::int32_t index, std::int32_t (&counts)[max_world]) const {
    constexpr std::uint32_t looks_between_checks = 32;
    const std::uint32_t epoch = shared_.words().epoch;
    std::uint64_t start = 0;
    std::uint32_t look = 0;
    std::uint32_t seen = 0;
#pragma unroll 1
    while (true) {
      const std::int32_t late = look_at_counts(index, epoch, counts, seen);
      if (late < 0) {
        return;
      }
      start = look == 0 ? global_nanoseconds() : start;
      ++look;
      if (look % looks_between_checks == 0 && gave_up(call_.waits(), target(late, index, epoch), epoch, seen, start)) {
        break;
      }
    }
    shared_.words().failed = 1;
#pragma unroll
    for (std::int32_t rank = 0; rank < max_world; ++rank) {
      counts[rank] = 0;
    }
  }

  /// A rank whose count is not of this call, with the call that it is of; -1: all are. The loads are all under way at
  /// once, their latencies do not add up.
  [[nodiscard]] __device__ std::int32_t look_at_counts(std::int32_t index, std::uint32_t epoch,
                                                       std::int32_t (&counts)[max_world], std::uint32_t& seen) const {
    const std::uint64_t* words = launch_.counts[exchange_.call.rank] + index;
    const std::int32_t own = counts_.of_rank(index);
    std::uint64_t values[max_world];
#pragma unroll
    for (std::int32_t rank = 0; rank < max_world; ++rank) {
      values[rank] = std::uint64_t{epoch} << 32U;
      if (rank < exchange_.call.world && rank != exchange_.call.rank) {
        values[rank] = load_word(words + rank * (experts_ + 1));
      }
    }
    std::int32_t late = -1;
#pragma unroll
    for (std::int32_t rank = 0; rank < max_world; ++rank) {
      counts[rank] = static_cast<std::int32_t>(values[rank] & 0xFFFFFFFFU);
      if (static_cast<std::uint32_t>(values[rank] >> 32U) != epoch) {
        late = rank;
        seen = static_cast<std::uint32_t>(values[rank] >> 32U);
      }
      counts[rank] = rank == exchange_.call.rank ? own : counts[rank];
    }
    return late;
  }

  [[nodiscard]] __device__ static WaitTarget target(std::int32_t peer, std::int32_t index, std::uint32_t epoch) {
    return {WaitSite::peer_entry, peer, static_cast<std::uint32_t>(index), epoch};
  }

  /// One warp for the experts of each rank: their first rows, and from them the next row of each sender.
  __device__ void assign() const {
    const std::int32_t rank = thread() / 32;
    if (rank >= exchange_.call.world) {
      return;
    }
    const bool leaves_counts = block_ == 0 && rank == exchange_.call.rank;
    const bool failed = shared_.words().failed != 0;  // then the kernels behind this one find no rows
    std::int32_t blocks_before = 0;
#pragma unroll 1
    for (std::int32_t first = 0; first < exchange_.experts_per_rank; first += 32) {
      const std::int32_t local = first + lane_index();
      const bool exists = local < exchange_.experts_per_rank;
      const std::int32_t expert = rank * exchange_.experts_per_rank + local;
      const std::int32_t rows = exists && !failed ? shared_.all()[expert] : 0;
      const std::int32_t blocks = schedule::moe_blocks(rows, moe_block_rows);
      const std::int32_t blocks_up_to = blocks_before + inclusive_sum(blocks);
      if (exists) {
        assign_rows(expert, (blocks_up_to - blocks) * moe_block_rows);
        if (leaves_counts) {
          exchange_.rows.counts[local] = rows;
          exchange_.rows.first_block[local] = blocks_up_to - blocks;
        }
      }
      blocks_before = __shfl_sync(0xFFFFFFFFU, blocks_up_to, 31);
    }
    if (leaves_counts) {
      leave_sums(blocks_before, failed);
    }
  }

  __device__ void assign_rows(std::int32_t expert, std::int32_t first_row) const {
    std::int32_t row = first_row + shared_.before()[expert];
#pragma unroll 1
    for (std::int32_t sender = 0; sender < launch_.senders; ++sender) {
      std::int32_t& next = shared_.next_row(sender)[expert];
      const std::int32_t count = next;
      next = row;
      row += count;
    }
  }

  __device__ void leave_sums(std::int32_t blocks, bool failed) const {
    if (lane_index() == 0) {
      exchange_.rows.first_block[exchange_.experts_per_rank] = blocks;
    }
    if (lane_index() < exchange_.call.world) {
      exchange_.tokens_of[lane_index()] = failed ? 0 : shared_.words().tokens_of[lane_index()];
    }
  }

  [[nodiscard]] __device__ static std::int32_t inclusive_sum(std::int32_t value) {
#pragma unroll
    for (std::int32_t distance = 1; distance < 32; distance *= 2) {
      const std::int32_t lower = __shfl_up_sync(0xFFFFFFFFU, value, static_cast<unsigned>(distance));
      value += lane_index() >= distance ? lower : 0;
    }
    return value;
  }

  __device__ static void store_word(std::uint64_t* word, std::uint64_t value) {
    asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
  }
  [[nodiscard]] __device__ static std::uint64_t load_word(const std::uint64_t* word) {
    std::uint64_t value;
    asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
    return value;
  }

  const DispatchLaunch& launch_;
  const MoeExchange& exchange_;
  const DispatchShared& shared_;
  const CollectiveCall call_;
  const DispatchCounts counts_;
  const std::int32_t block_;
  const std::int32_t blocks_;
  const std::int32_t experts_;
};

}  // namespace xstage::kernels
