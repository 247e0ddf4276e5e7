#pragma once
// One-shot all-reduce: partial sums go from registers to slots that the peers poll into registers, and are their own
// flags.
//
//   own accumulators --16-byte stores--> slot of this rank at every peer
//   slots of the peers --polled loads--> added up in rank order; the slot is empty again
//
// An empty slot holds a NaN that no rounding yields, so a word that differs *is* the arrival. There is no wait until
// stores have been performed, no fence, no flag, and no copy through shared memory; after the last main loop of 256 x
// 8192 x 8192 these took 4 us beside the 11 us of the link. A variant with the number of the call in each word in place
// of the NaN had twice the volume and was slower from 64 rows on.
//
// The slots hold values in the order of the accumulators, not of the matrix: the same thread of the same tile holds the
// same elements on every rank. Two sets of slots alternate: call e uses those of call e - 2, which a peer has emptied
// when it has entered call e - 1.

#include "ops/gemm/device/context.cuh"
#include "tile/epilogue.cuh"

namespace xstage::kernels {

/// A word of the exchange: eight bf16.
struct ExchangeWord {
  std::uint32_t pairs[4];
};

/// Two empty elements. Rounding to bf16 gives 0x7FFF for every NaN, never this.
inline constexpr std::uint32_t empty_pair = 0xFFFFFFFFU;

__device__ inline void store_exchange(ExchangeWord* word, const ExchangeWord& value) {
  asm volatile("st.relaxed.sys.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(word), "r"(value.pairs[0]),
               "r"(value.pairs[1]), "r"(value.pairs[2]), "r"(value.pairs[3])
               : "memory");
}

__device__ inline ExchangeWord load_exchange(const ExchangeWord* word) {
  ExchangeWord value;
  asm volatile("ld.relaxed.sys.global.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value.pairs[0]), "=r"(value.pairs[1]), "=r"(value.pairs[2]), "=r"(value.pairs[3])
               : "l"(word)
               : "memory");
  return value;
}

/// The exchange of one multiplying thread's part of half a tile.
template <std::size_t Values>
class RegisterExchange {
 public:
  static constexpr std::size_t words = Values / 8;  // 16-byte words of each thread

  __device__ RegisterExchange(const GemmLaunch& launch, GemmContext& context, std::uint32_t epoch,
                              std::uint32_t half_tile_number)
      : launch_(launch), context_(context), epoch_(epoch), half_tile_(half_tile_number) {}

  /// Whether this warp takes part: a warp whose rows all lie beyond the matrix has nothing to send.
  __device__ static bool takes_part(std::int32_t rows) {
    return static_cast<std::int32_t>(threadIdx.x / 32U % 4U * 16U) < rows;
  }

  __device__ void send(const float (&values)[Values]) const {
#pragma unroll 1
    for (std::int32_t step = 1; step < launch_.call.world; ++step) {
      const std::int32_t peer = (launch_.call.rank + step) % launch_.call.world;
      ExchangeWord* slot = slot_at(peer, launch_.call.rank);
#pragma unroll
      for (std::size_t word = 0; word < words; ++word) {
        store_exchange(slot + 128 * word, {pack(values + 8 * word), pack(values + 8 * word + 2),
                                           pack(values + 8 * word + 4), pack(values + 8 * word + 6)});
      }
    }
  }

  /// Waits for the partial sums of one peer, adds them, and empties the slot.
  __device__ void add(float* values, std::int32_t peer) const {
    ExchangeWord* slot = slot_at(launch_.call.rank, peer);
    ExchangeWord received[words];
    await_words(received, slot, peer);
#pragma unroll
    for (std::size_t word = 0; word < words; ++word) {
      store_exchange(slot + 128 * word, {empty_pair, empty_pair, empty_pair, empty_pair});
#pragma unroll
      for (std::size_t pair = 0; pair < 4; ++pair) {
        values[8 * word + 2 * pair] += __uint_as_float(received[word].pairs[pair] << 16U);
        values[8 * word + 2 * pair + 1] += __uint_as_float(received[word].pairs[pair] & 0xFFFF0000U);
      }
    }
  }

 private:
  __device__ static std::uint32_t pack(const float* pair) {
    const __nv_bfloat162 rounded = __floats2bfloat162_rn(pair[0], pair[1]);
    return *reinterpret_cast<const std::uint32_t*>(&rounded);
  }

  /// Address of this thread's first word at `rank`, in [parity of the call][source][half tile][word][thread].
  [[nodiscard]] __device__ ExchangeWord* slot_at(std::int32_t rank, std::int32_t source) const {
    const std::int64_t set = static_cast<std::int64_t>(epoch_ & 1U) * launch_.call.world + source;
    const auto index = static_cast<std::size_t>(set * launch_.exchange_half_tiles + half_tile_);
    return reinterpret_cast<ExchangeWord*>(launch_.exchange[rank]) + index * words * 128 + threadIdx.x % 128U;
  }

  /// Polls until all words have arrived, or the wait gives up, in this tile and all later ones.
  __device__ void await_words(ExchangeWord (&received)[words], const ExchangeWord* slot, std::int32_t peer) const {
    const std::uint64_t start = global_nanoseconds();
    while (true) {
#pragma unroll 1
      for (int look = 0; look < 32; ++look) {
        if (load_words(received, slot)) {
          return;
        }
      }
      if (gave_up(wait_context(launch_.call), {WaitSite::partial_tile, peer, half_tile_, epoch_}, 1, 0, start)) {
        store_release_shared(&context_.may_exchange, 2U);
        return;
      }
    }
  }

  /// Loads all words and returns whether they have arrived. All loads are in flight together, but only after the word
  /// that was sent last has arrived: every poll takes bandwidth of L2 that the peer's stores need.
  __device__ static bool load_words(ExchangeWord (&received)[words], const ExchangeWord* slot) {
    received[words - 1] = load_exchange(slot + 128 * (words - 1));
    if (!complete(received[words - 1])) {
      return false;
    }
#pragma unroll
    for (std::size_t word = 0; word < words - 1; ++word) {
      received[word] = load_exchange(slot + 128 * word);
    }
    bool all = true;
#pragma unroll
    for (std::size_t word = 0; word < words - 1; ++word) {
      all = all && complete(received[word]);
    }
    return all;
  }

  [[nodiscard]] __device__ static bool complete(const ExchangeWord& word) {
    return word.pairs[0] != empty_pair && word.pairs[1] != empty_pair && word.pairs[2] != empty_pair &&
           word.pairs[3] != empty_pair;
  }

  const GemmLaunch& launch_;
  GemmContext& context_;
  const std::uint32_t epoch_;
  const std::uint32_t half_tile_;
};

}  // namespace xstage::kernels
