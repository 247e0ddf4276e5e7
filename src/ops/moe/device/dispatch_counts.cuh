#pragma once
// Counts the choices of each expert: those of tokens before this CTA, of each of its senders, and of the whole rank. If
// there are few tokens, every CTA counts all of them. Otherwise each CTA counts its own tokens and adds up the counts
// of the CTAs before it, which takes a barrier of all CTAs. Totals are complete at the barrier, so that peers get them
// while CTAs still add up.

#include "ops/moe/device/exchange_shared.cuh"

namespace xstage::kernels {

/// Whether a choice is valid. An invalid choice is treated like a choice of no expert.
__device__ inline bool is_valid(std::int32_t expert, float weight, std::int32_t experts) {
  return expert >= 0 && expert < experts && isfinite(weight);
}

class DispatchCounts {
 public:
  __device__ DispatchCounts(const DispatchLaunch& launch, const DispatchShared& shared, const RolePlace& place)
      : launch_(launch),
        exchange_(launch.exchange),
        shared_(shared),
        call_(launch.exchange.call, place.block),
        place_(place),
        experts_(launch.exchange.experts()),
        own_(MoeTokenRange::of(launch.exchange.tokens, place.block, place.blocks)) {}

  /// Number of threads that count: all but the last warp, which has other work.
  [[nodiscard]] __device__ std::int32_t counting_threads() const { return place_.threads() - 32; }

  /// May run before the preceding kernel in the stream has ended.
  __device__ void prepare() const {
#pragma unroll 1
    for (std::int32_t index = thread(); index < (2 + launch_.senders) * experts_; index += place_.threads()) {
      shared_.before()[index] = 0;  // the three arrays are contiguous
    }
    if (thread() == 0) {
      shared_.words().failed = 0;
      shared_.words().bad_choice = 0;
    }
    if (thread() < launch_.senders) {  // computed once, since each range takes two long divisions
      shared_.words().sender_end[thread()] = sender_tokens(thread()).end;
    }
  }

  /// For the first counting_threads() threads.
  __device__ void count() const {
    const std::int32_t first = (counts_all() ? 0 : own_.begin) * exchange_.top_k;
    const std::int32_t last = (counts_all() ? exchange_.tokens : own_.end) * exchange_.top_k;
#pragma unroll 1
    for (std::int32_t choice = first + thread(); choice < last; choice += at_once * counting_threads()) {
      count_some(choice, last);
    }
  }

  /// For all threads, after count() and a barrier. Ends with a barrier, after which of_rank() is known.
  __device__ void share() const {
    const std::uint32_t epoch = shared_.words().epoch;
    clear_totals(epoch + 1U);  // these totals were last used in the call before this one
    if (counts_all()) {
      add_up_tokens();
    } else {
      leave_counts(totals(epoch));
      place_.synchronise();
      if (thread() == 0 && !await_blocks()) {
        shared_.words().failed = 1;
      }
    }
    place_.synchronise();
  }

  /// For all threads, after share(). Completes before(). Ends with a barrier unless nothing is missing.
  __device__ void add_up() const {
    if (!counts_all()) {
      add_up_blocks();
      place_.synchronise();
    }
  }

  /// A word of this rank's line of counts, except the two that describe an invalid choice.
  [[nodiscard]] __device__ std::int32_t of_rank(std::int32_t index) const {
    if (index == experts_ + MoeCountLine::tokens) {
      return exchange_.tokens;
    }
    if (index == experts_ + MoeCountLine::bad_choice) {
      return static_cast<std::int32_t>(bad_choice());
    }
    return counts_all() ? shared_.all()[index]
                        : static_cast<std::int32_t>(__ldcg(totals(shared_.words().epoch) + index));
  }

  /// Mark of the rank's first invalid choice.
  [[nodiscard]] __device__ std::uint32_t bad_choice() const {
    return counts_all() ? shared_.words().bad_choice : __ldcg(totals(shared_.words().epoch) + experts_);
  }

 private:
  static constexpr std::int32_t at_once = 8;
  static constexpr std::int32_t added_at_once = 12;  // CTAs whose counts are loaded together

  [[nodiscard]] __device__ std::int32_t thread() const { return place_.thread(); }
  [[nodiscard]] __device__ bool counts_all() const {
    return exchange_.tokens * exchange_.top_k <= launch_.counted_by_all;
  }

  /// Counts some choices. All loads are in flight together.
  __device__ void count_some(std::int32_t first, std::int32_t last) const {
    std::int32_t experts[at_once];
    float weights[at_once];
#pragma unroll
    for (std::int32_t index = 0; index < at_once; ++index) {
      const std::int32_t choice = first + index * counting_threads();
      experts[index] = choice < last ? __ldg(launch_.experts + choice) : MoeRoute::none;
      weights[index] = choice < last ? __ldg(launch_.router_weights + choice) : 0.0F;
    }
#pragma unroll
    for (std::int32_t index = 0; index < at_once; ++index) {
      const std::int32_t choice = first + index * counting_threads();
      if (is_valid(experts[index], weights[index], experts_)) {
        atomicAdd(counter_of(choice / exchange_.top_k) + experts[index], 1);
      } else if (experts[index] != MoeRoute::none) {
        atomicMax(&shared_.words().bad_choice, MoeCountLine::mark(choice));
      }
    }
  }

  [[nodiscard]] __device__ std::int32_t* counter_of(std::int32_t token) const {
    if (token < own_.begin) {
      return shared_.before();
    }
    if (token >= own_.end) {
      return shared_.all();
    }
    std::int32_t sender = 0;
    while (token >= shared_.words().sender_end[sender]) {
      ++sender;
    }
    return shared_.next_row(sender);
  }

  [[nodiscard]] __device__ MoeTokenRange sender_tokens(std::int32_t sender) const {
    return MoeTokenRange::of(exchange_.tokens, place_.block * launch_.senders + sender,
                             place_.blocks * launch_.senders);
  }

  [[nodiscard]] __device__ std::int32_t own_count(std::int32_t expert) const {
    std::int32_t sum = 0;
#pragma unroll 1
    for (std::int32_t sender = 0; sender < launch_.senders; ++sender) {
      sum += shared_.next_row(sender)[expert];
    }
    return sum;
  }

  [[nodiscard]] __device__ std::uint32_t* totals(std::uint32_t epoch) const {
    return launch_.totals + (epoch % 2U) * static_cast<std::uint32_t>(total_words(experts_));
  }

  /// Clears the totals in every call, whichever way it counts, since the next call may count the other way.
  __device__ void clear_totals(std::uint32_t epoch) const {
    if (place_.block == 0) {
#pragma unroll 1
      for (std::int32_t word = thread(); word <= experts_; word += place_.threads()) {
        totals(epoch)[word] = 0;
      }
    }
  }

  __device__ void add_up_tokens() const {
#pragma unroll 1
    for (std::int32_t expert = thread(); expert < experts_; expert += place_.threads()) {
      shared_.all()[expert] += shared_.before()[expert] + own_count(expert);
    }
    if (place_.block == 0 && thread() == 0) {
      // No CTA waits for this word in this call, but it must not fall behind by more calls than a signed distance
      // holds.
      store_relaxed(call_.own_signal(MoeExchangePad::blocks_passed), shared_.words().epoch);
    }
  }

  __device__ void leave_counts(std::uint32_t* totals) const {
    const std::int32_t padded = padded_counts(experts_);
#pragma unroll 1
    for (std::int32_t expert = thread(); expert < padded; expert += place_.threads()) {
      const auto count = static_cast<std::uint32_t>(expert < experts_ ? own_count(expert) : 0);
      launch_.block_counts[place_.block * padded + expert] = count;
      if (count != 0U) {
        atomicAdd(totals + expert, count);
      }
    }
    if (thread() == 0 && shared_.words().bad_choice != 0U) {
      atomicMax(totals + experts_, shared_.words().bad_choice);
    }
  }

  /// Adds up the counts of the CTAs before this one.
  __device__ void add_up_blocks() const {
    const std::int32_t fours = padded_counts(experts_) / 4;
    const std::int32_t parts = max(1, place_.threads() / fours);  // threads that share four experts
#pragma unroll 1
    for (std::int32_t index = thread(); index < fours * parts; index += place_.threads()) {
      add_up(index % fours, MoeTokenRange::of(place_.block, index / fours, parts));
    }
  }

  /// Adds up four experts in some CTAs. The counts of several CTAs are loaded together.
  __device__ void add_up(std::int32_t four, const MoeTokenRange& some_blocks) const {
    const auto* all = reinterpret_cast<const uint4*>(launch_.block_counts);
    std::uint32_t sums[4] = {};
#pragma unroll 1
    for (std::int32_t first = some_blocks.begin; first < some_blocks.end; first += added_at_once) {
      uint4 counts[added_at_once];
#pragma unroll
      for (std::int32_t index = 0; index < added_at_once; ++index) {
        const std::int32_t block = first + index;
        counts[index] = {0U, 0U, 0U, 0U};
        if (block < some_blocks.end) {
          counts[index] = __ldcg(all + block * padded_counts(experts_) / 4 + four);
        }
      }
#pragma unroll
      for (std::int32_t index = 0; index < added_at_once; ++index) {
        sums[0] += counts[index].x;
        sums[1] += counts[index].y;
        sums[2] += counts[index].z;
        sums[3] += counts[index].w;
      }
    }
#pragma unroll
    for (std::int32_t index = 0; index < 4; ++index) {
      if (4 * four + index < experts_ && sums[index] != 0U) {
        atomicAdd(shared_.before() + 4 * four + index, static_cast<std::int32_t>(sums[index]));
      }
    }
  }

  /// Barrier of all CTAs, for one thread. The last CTA to arrive opens the barrier and resets it for the next call.
  [[nodiscard]] __device__ bool await_blocks() const {
    std::uint32_t* passed = call_.own_signal(MoeExchangePad::blocks_passed);
    std::uint32_t* arrived = call_.own_signal(MoeExchangePad::blocks_arrived);
    const std::uint32_t epoch = shared_.words().epoch;
    __threadfence();
    if (atomicAdd(arrived, 1U) + 1U == static_cast<std::uint32_t>(place_.blocks)) {
      atomicExch(arrived, 0U);
      __threadfence();
      store_relaxed(passed, epoch);
      return true;
    }
    return wait_at_least(call_.waits(), {WaitSite::own_blocks, exchange_.call.rank, 0, epoch}, passed, epoch);
  }

  const DispatchLaunch& launch_;
  const MoeExchange& exchange_;
  const DispatchShared& shared_;
  const CollectiveCall call_;
  const RolePlace place_;
  const std::int32_t experts_;
  const MoeTokenRange own_;
};

}  // namespace xstage::kernels
