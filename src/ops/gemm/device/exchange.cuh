#pragma once
// All-reduce in one shot: partial sums go from registers to the peers' registers, and are their own flags.
//
//   own accumulators --16-byte stores--> slot of this rank at every peer
//   slots of the peers --polled loads--> added up in rank order; the slot is empty again
//
// A slot that nobody has written holds a NaN that no rounding yields, so a word that differs *is* the arrival: no wait
// until stores have been performed, no fence, no flag, and no copy through shared memory. Behind the last main loop of
// 256 x 8192 x 8192 all that took 4 us beside the 11 of the link. With the number of the call in each word in place of
// the NaN the volume was twice that: slower from 64 rows on.
//
// The slots hold values in the order of the accumulators, not of the matrix: the same thread of the same tile of every
// rank holds the same elements. Two sets of slots alternate: a peer that has entered the call before this one has
// emptied those of the call before that one.

#include "ops/gemm/device/context.cuh"
#include "tile/epilogue.cuh"

namespace xstage::kernels {

/// Eight bf16.
struct ExchangeWord {
  std::uint32_t pairs[4];
};

/// Rounding to bf16 gives 0x7FFF for every NaN.
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
  static constexpr std::size_t words = Values / 8;  // of 16 bytes, for each thread

  __device__ RegisterExchange(const GemmLaunch& launch, GemmContext& context, std::uint32_t epoch,
                              std::uint32_t half_tile_number)
      : launch_(launch), context_(context), epoch_(epoch), half_tile_(half_tile_number) {}

  /// Rows beyond the matrix belong to warps that have nothing to send.
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

  /// Adds what one peer has sent, when it is there, and empties the slot.
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

  /// First word of this thread: [parity of the call][source][half tile][word][thread] at `rank`.
  [[nodiscard]] __device__ ExchangeWord* slot_at(std::int32_t rank, std::int32_t source) const {
    const std::int64_t set = static_cast<std::int64_t>(epoch_ & 1U) * launch_.call.world + source;
    const auto index = static_cast<std::size_t>(set * launch_.exchange_half_tiles + half_tile_);
    return reinterpret_cast<ExchangeWord*>(launch_.exchange[rank]) + index * words * 128 + threadIdx.x % 128U;
  }

  /// Until all words are there, or the wait is given up: then for all tiles that follow, too.
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

  /// Whether all words were there. All loads under way at once; but first a look at the word that was sent last alone:
  /// a look at all costs L2 what the peer's stores need.
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
