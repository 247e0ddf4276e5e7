#pragma once
// How many choices each expert has: of the tokens before those of this CTA, of each of its senders, of those behind.
// Few tokens: every CTA counts all of them. Many: each counts its own and adds up what the others have left, which
// takes a barrier of all CTAs.

#include "kernels/moe/dispatch_shared.cuh"

namespace xstage::kernels {

/// Whether a choice takes part. Those that break a rule are treated like those of no expert.
__device__ inline bool is_valid(std::int32_t expert, float weight, std::int32_t experts) {
  return expert >= 0 && expert < experts && isfinite(weight);
}

class DispatchCounts {
 public:
  static constexpr std::int32_t counting_threads = dispatch_threads - 32;  // the last warp has something else to do

  __device__ DispatchCounts(const DispatchLaunch& launch, const DispatchShared& shared, std::int32_t block,
                            std::int32_t blocks)
      : launch_(launch),
        exchange_(launch.exchange),
        shared_(shared),
        call_(launch.exchange.call, block),
        block_(block),
        blocks_(blocks),
        experts_(launch.exchange.experts()),
        own_(MoeTokenRange::of(launch.exchange.tokens, block, blocks)) {}

  /// Before the kernel before this one has ended.
  __device__ void prepare() const {
#pragma unroll 1
    for (std::int32_t index = thread(); index < (2 + launch_.senders) * experts_; index += dispatch_threads) {
      shared_.before()[index] = 0;  // the three arrays follow each other
    }
    if (thread() == 0) {
      shared_.words().failed = 0;
    }
    if (thread() < launch_.senders) {  // once: each of these ranges takes two long divisions
      shared_.words().sender_end[thread()] = sender_tokens(thread()).end;
    }
  }

  /// The first counting_threads of the CTA.
  __device__ void count() const {
    const std::int32_t first = (counts_all() ? 0 : own_.begin) * exchange_.top_k;
    const std::int32_t last = (counts_all() ? exchange_.tokens : own_.end) * exchange_.top_k;
#pragma unroll 1
    for (std::int32_t choice = first + thread(); choice < last; choice += at_once * counting_threads) {
      count_some(choice, last);
    }
  }

  /// All threads, after count() and a barrier. Ends with one unless nothing is missing.
  __device__ void complete() const {
    if (!counts_all()) {
      add_up_blocks();
    } else if (block_ == 0 && thread() == 0) {
      // Nobody waits for it in this call, but it must not fall behind by more calls than a signed distance holds.
      store_relaxed(call_.own_signal(MoeExchangePad::blocks_passed), shared_.words().epoch);
    }
  }

  /// Of this rank. Index `experts`: its tokens.
  [[nodiscard]] __device__ std::int32_t of_rank(std::int32_t index) const {
    return index == experts_ ? exchange_.tokens : shared_.before()[index] + own_count(index) + shared_.behind()[index];
  }

 private:
  static constexpr std::int32_t at_once = 8;
  static constexpr std::int32_t added_at_once = 12;  // CTAs whose counts are under way together

  [[nodiscard]] __device__ static std::int32_t thread() { return static_cast<std::int32_t>(threadIdx.x); }
  [[nodiscard]] __device__ bool counts_all() const {
    return exchange_.tokens * exchange_.top_k <= launch_.counted_by_all;
  }

  /// All loads are under way together.
  __device__ void count_some(std::int32_t first, std::int32_t last) const {
    std::int32_t experts[at_once];
    float weights[at_once];
#pragma unroll
    for (std::int32_t index = 0; index < at_once; ++index) {
      const std::int32_t choice = first + index * counting_threads;
      experts[index] = choice < last ? __ldg(launch_.experts + choice) : MoeRoute::none;
      weights[index] = choice < last ? __ldg(launch_.router_weights + choice) : 0.0F;
    }
#pragma unroll
    for (std::int32_t index = 0; index < at_once; ++index) {
      if (is_valid(experts[index], weights[index], experts_)) {
        atomicAdd(counter_of((first + index * counting_threads) / exchange_.top_k) + experts[index], 1);
      }
    }
  }

  [[nodiscard]] __device__ std::int32_t* counter_of(std::int32_t token) const {
    if (token < own_.begin) {
      return shared_.before();
    }
    if (token >= own_.end) {
      return shared_.behind();
    }
    std::int32_t sender = 0;
    while (token >= shared_.words().sender_end[sender]) {
      ++sender;
    }
    return shared_.next_row(sender);
  }

  [[nodiscard]] __device__ MoeTokenRange sender_tokens(std::int32_t sender) const {
    return MoeTokenRange::of(exchange_.tokens, block_ * launch_.senders + sender, blocks_ * launch_.senders);
  }

  [[nodiscard]] __device__ std::int32_t own_count(std::int32_t expert) const {
    std::int32_t sum = 0;
#pragma unroll 1
    for (std::int32_t sender = 0; sender < launch_.senders; ++sender) {
      sum += shared_.next_row(sender)[expert];
    }
    return sum;
  }

  /// Every CTA leaves its counts, waits for all others, and adds up those before and those behind it.
  __device__ void add_up_blocks() const {
    const std::int32_t padded = padded_counts(experts_);
#pragma unroll 1
    for (std::int32_t expert = thread(); expert < padded; expert += dispatch_threads) {
      const std::int32_t count = expert < experts_ ? own_count(expert) : 0;
      launch_.block_counts[block_ * padded + expert] = static_cast<std::uint32_t>(count);
    }
    __syncthreads();
    if (thread() == 0 && !await_blocks()) {
      shared_.words().failed = 1;
    }
    __syncthreads();
    const std::int32_t fours = padded / 4;
    const std::int32_t parts = max(1, dispatch_threads / fours);  // threads that share four experts
#pragma unroll 1
    for (std::int32_t index = thread(); index < fours * parts; index += dispatch_threads) {
      add_up(index % fours, MoeTokenRange::of(blocks_, index / fours, parts));
    }
    __syncthreads();
  }

  /// Four experts in some CTAs. The counts of several CTAs are under way together.
  __device__ void add_up(std::int32_t four, const MoeTokenRange& some_blocks) const {
    const auto* all = reinterpret_cast<const uint4*>(launch_.block_counts);
    std::int32_t before[4] = {};
    std::int32_t behind[4] = {};
#pragma unroll 1
    for (std::int32_t first = some_blocks.begin; first < some_blocks.end; first += added_at_once) {
      uint4 counts[added_at_once];
#pragma unroll
      for (std::int32_t index = 0; index < added_at_once; ++index) {
        const std::int32_t block = first + index;
        const bool counts_here = block < some_blocks.end && block != block_;
        counts[index] = counts_here ? __ldcg(all + block * padded_counts(experts_) / 4 + four) : uint4{0, 0, 0, 0};
      }
#pragma unroll
      for (std::int32_t index = 0; index < added_at_once; ++index) {
        const bool is_before = first + index < block_;
        add_four(before, counts[index], is_before);
        add_four(behind, counts[index], !is_before);
      }
    }
#pragma unroll
    for (std::int32_t index = 0; index < 4; ++index) {
      if (4 * four + index < experts_) {
        atomicAdd(shared_.before() + 4 * four + index, before[index]);
        atomicAdd(shared_.behind() + 4 * four + index, behind[index]);
      }
    }
  }

  __device__ static void add_four(std::int32_t (&sums)[4], const uint4& counts, bool adds) {
    sums[0] += adds ? static_cast<std::int32_t>(counts.x) : 0;
    sums[1] += adds ? static_cast<std::int32_t>(counts.y) : 0;
    sums[2] += adds ? static_cast<std::int32_t>(counts.z) : 0;
    sums[3] += adds ? static_cast<std::int32_t>(counts.w) : 0;
  }

  /// One thread. The last CTA that comes opens the barrier and makes it ready for the next call.
  [[nodiscard]] __device__ bool await_blocks() const {
    std::uint32_t* passed = call_.own_signal(MoeExchangePad::blocks_passed);
    std::uint32_t* arrived = call_.own_signal(MoeExchangePad::blocks_arrived);
    const std::uint32_t epoch = shared_.words().epoch;
    __threadfence();
    if (atomicAdd(arrived, 1U) + 1U == static_cast<std::uint32_t>(blocks_)) {
      atomicExch(arrived, 0U);
      __threadfence();
      store_relaxed(passed, epoch);
      return true;
    }
    return wait_at_least(call_.waits(), {MoeWaitSite::own_blocks, exchange_.call.rank, 0, epoch}, passed, epoch);
  }

  const DispatchLaunch& launch_;
  const MoeExchange& exchange_;
  const DispatchShared& shared_;
  const CollectiveCall call_;
  const std::int32_t block_;
  const std::int32_t blocks_;
  const std::int32_t experts_;
  const MoeTokenRange own_;
};

}  // namespace xstage::kernels
