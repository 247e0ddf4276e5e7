#pragma once
// Finds the rows of choices: every CTA computes them from counts, for the tokens of its senders.
//
//   count     the choices of each expert, before this CTA, in it and on the whole rank  dispatch_counts.cuh
//   publish   this rank's counts go to all peers, with the number of the call in the same 8 bytes, so that they need no
//             fence and no flag. A peer that has read them also knows that this rank has entered the call, so that its
//             rows may be overwritten. The first invalid choice goes with them.
//   gather    each rank reads all ranks' counts and computes the same blocks from them. CTA 0 reports the first invalid
//             choice of all ranks, so that all ranks report the same one. Later calls do nothing until the host has
//             cleared the signal pad, since no rank knows which of them the host of a peer has still launched.
//   assign    each sender gets the row of its next choice, for each expert

#include "ops/moe/device/dispatch_counts.cuh"

namespace xstage::kernels {

class DispatchPlaces {
 public:
  __device__ DispatchPlaces(const DispatchLaunch& launch, const DispatchShared& shared, const RolePlace& place)
      : launch_(launch),
        exchange_(launch.exchange),
        shared_(shared),
        call_(launch.exchange.call, place.block),
        counts_(launch, shared, place),
        place_(place),
        experts_(launch.exchange.experts()) {}

  /// May run before the preceding kernel in the stream has ended.
  __device__ void prepare() const { counts_.prepare(); }

  /// For all threads, after prepare() and a barrier.
  __device__ void count() const {
    if (thread() < counts_.counting_threads()) {
      counts_.count();
    } else if (thread() == counts_.counting_threads()) {
      begin();
      fence_release();  // orders the reads of earlier kernels before publish(), after which peers may overwrite
    }
  }

  /// For all threads, after count().
  __device__ void publish() const {
    place_.synchronise();
    counts_.share();
    publish_counts();
    counts_.add_up();
  }

  /// For all threads, after publish(). Ends with a barrier.
  __device__ void find() const {
    gather();
    place_.synchronise();
    if (place_.block == 0 && thread() + 1 == place_.threads()) {
      report_bad_choice();
    }
    assign();
    place_.synchronise();
  }

 private:
  [[nodiscard]] __device__ std::int32_t thread() const { return place_.thread(); }

  /// Reads the number of this call, counted from 1, and whether the call does anything.
  __device__ void begin() const {
    const std::uint32_t bad_call = load_relaxed(call_.own_signal(MoeExchangePad::bad_call));
    const std::uint32_t epoch = load_relaxed(call_.own_signal(MoeExchangePad::calls_of_dispatch(place_.block))) + 1U;
    shared_.words().epoch = epoch;
    // Another CTA may already have reported an invalid choice of this very call.
    const bool passes_over = bad_call != 0U && bad_call != epoch;
    shared_.words().passed_over = passes_over ? 1U : 0U;
    if (passes_over) {
      shared_.words().failed = 1;
      store_relaxed(call_.own_signal(MoeExchangePad::calls_of_combine(place_.block) + 1U), 1U);
    }
  }

  /// Publishes counts, with one whole CTA for each peer. Does nothing after a wait that gave up, since rows from wrong
  /// counts may lie anywhere.
  __device__ void publish_counts() const {
    if (shared_.words().failed != 0) {
      return;
    }
#pragma unroll 1
    for (std::int32_t peer = place_.block; peer < exchange_.call.world; peer += place_.blocks) {
      if (peer == exchange_.call.rank) {
        continue;
      }
      std::uint64_t* line = launch_.counts[peer] + exchange_.call.rank * MoeCountLine::words(experts_);
#pragma unroll 1
      for (std::int32_t index = thread(); index < MoeCountLine::words(experts_); index += place_.threads()) {
        const std::uint64_t call = std::uint64_t{shared_.words().epoch} << 32U;
        store_word(line + index, call | static_cast<std::uint32_t>(own_word(index)));
      }
    }
  }

  [[nodiscard]] __device__ std::int32_t own_word(std::int32_t index) const {
    const std::int32_t part = index - experts_;
    if (part < MoeCountLine::bad_expert) {
      return counts_.of_rank(index);
    }
    const std::uint32_t mark = counts_.bad_choice();
    if (mark == 0U) {
      return 0;
    }
    const std::int32_t choice = MoeCountLine::marked(mark);
    return part == MoeCountLine::bad_expert ? __ldg(launch_.experts + choice)
                                            : __float_as_int(__ldg(launch_.router_weights + choice));
  }

  /// Reads the counts of all ranks: before() then includes the rows of the ranks before this one, and all() those of
  /// all ranks. One CTA also reads the invalid choices, on which no row depends.
  __device__ void gather() const {
    const std::int32_t words = place_.block == 0 ? MoeCountLine::words(experts_) : experts_ + 1;
#pragma unroll 1
    for (std::int32_t index = thread(); index < words; index += place_.threads()) {
      std::int32_t counts[max_world];
      read_counts(index, counts);
      if (index >= experts_) {
#pragma unroll
        for (std::int32_t rank = 0; rank < max_world; ++rank) {
          shared_.words().of_ranks[index - experts_][rank] = counts[rank];
        }
        continue;
      }
      std::int32_t all = 0;
      std::int32_t lower = 0;
#pragma unroll
      for (std::int32_t rank = 0; rank < max_world; ++rank) {
        all += counts[rank];
        lower += rank < exchange_.call.rank ? counts[rank] : 0;
      }
      shared_.before()[index] += lower;
      shared_.all()[index] = all;
    }
  }

  /// Reports an invalid choice, in one thread of the rank, after gather() and a barrier.
  __device__ void report_bad_choice() const {
    const DispatchWords& words = shared_.words();
    std::int32_t rank = 0;
    while (rank < exchange_.call.world && words.of_ranks[MoeCountLine::bad_choice][rank] == 0) {
      ++rank;
    }
    if (rank == exchange_.call.world || words.failed != 0) {
      return;
    }
    store_relaxed(call_.own_signal(MoeExchangePad::bad_call), words.epoch);
    RoutingReport* report = launch_.report;
    if (load_relaxed(&report->raised) == 0U) {
      const std::int32_t choice =
          MoeCountLine::marked(static_cast<std::uint32_t>(words.of_ranks[MoeCountLine::bad_choice][rank]));
      report->rank = rank;
      report->token = choice / exchange_.top_k;
      report->choice = choice % exchange_.top_k;
      report->expert = words.of_ranks[MoeCountLine::bad_expert][rank];
      report->weight = __int_as_float(words.of_ranks[MoeCountLine::bad_weight][rank]);
      store_release(&report->raised, 1U);
    }
  }

  /// Reads the counts of all ranks at one index, with 0 for ranks that do not exist. Waits until they are of this call.
  /// The wait is bounded like all waits; counts are 0 if it gave up or if this call does nothing.
  __device__ void read_counts(std::int32_t index, std::int32_t (&counts)[max_world]) const {
    constexpr std::uint32_t looks_between_checks = 32;
    const std::uint32_t epoch = shared_.words().epoch;
    std::uint64_t start = 0;
    std::uint32_t look = 0;
    std::uint32_t seen = 0;
#pragma unroll 1
    while (shared_.words().passed_over == 0U) {
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

  /// Polls the counts of all ranks at one index. Returns a rank whose count is not of this call, with the call that it
  /// is of, or -1 if all are. All loads are in flight together, so that their latencies do not add up.
  [[nodiscard]] __device__ std::int32_t look_at_counts(std::int32_t index, std::uint32_t epoch,
                                                       std::int32_t (&counts)[max_world], std::uint32_t& seen) const {
    const std::uint64_t* words = launch_.counts[exchange_.call.rank] + index;
    const std::int32_t own = own_word(index);
    std::uint64_t values[max_world];
#pragma unroll
    for (std::int32_t rank = 0; rank < max_world; ++rank) {
      values[rank] = std::uint64_t{epoch} << 32U;
      if (rank < exchange_.call.world && rank != exchange_.call.rank) {
        values[rank] = load_word(words + rank * MoeCountLine::words(experts_));
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

  /// Assigns rows, with one warp for the experts of each rank.
  __device__ void assign() const {
#pragma unroll 1
    for (std::int32_t rank = place_.warp; rank < exchange_.call.world; rank += place_.warps) {
      assign(rank);
    }
  }

  /// Computes the first rows of that rank's experts, and from them the next row of each sender.
  __device__ void assign(std::int32_t rank) const {
    const bool leaves_counts = place_.block == 0 && rank == exchange_.call.rank;
    const bool failed = shared_.words().failed != 0;  // in that case the kernels behind this one find no rows
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
      exchange_.tokens_of[lane_index()] = failed ? 0 : shared_.words().of_ranks[MoeCountLine::tokens][lane_index()];
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
  const RolePlace place_;
  const std::int32_t experts_;
};

}  // namespace xstage::kernels
