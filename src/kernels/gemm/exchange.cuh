#pragma once
// All-reduce in one shot for a handful of rows: partial sums go from registers to the peers' registers.
//
// Each 8-byte word carries two bf16 and the number of the call. A word is whole or not there, so whoever reads the
// number has the data: no wait for the arrival of stores, no fence, no flag, no copy. The volume doubles:
// at 16 rows it took as long as the exchange through slots, at 64 rows longer.
//
//   own accumulators --16-byte stores--> slot of this rank at every peer
//   slots of the peers --polled loads--> added up in rank order
//
// The slots hold values in the order of the accumulators, not of the matrix: the same thread of the same tile of every
// rank holds the same elements. Two sets of slots alternate: a peer that sends for this call has left the one before
// the last.

#include "kernels/gemm/epilogue.cuh"
#include "kernels/gemm/gemm_context.cuh"

namespace xstage::kernels {

/// Two pairs of bf16, each with the number of its call.
struct ExchangeWord {
  std::uint32_t first;
  std::uint32_t first_epoch;
  std::uint32_t second;
  std::uint32_t second_epoch;
};

__device__ inline void store_exchange(ExchangeWord* word, std::uint32_t first, std::uint32_t second,
                                      std::uint32_t epoch) {
  asm volatile("st.relaxed.sys.global.v2.b64 [%0], {%1, %2};" ::"l"(word),
               "l"(first | static_cast<std::uint64_t>(epoch) << 32U),
               "l"(second | static_cast<std::uint64_t>(epoch) << 32U)
               : "memory");
}

__device__ inline ExchangeWord load_exchange(const ExchangeWord* word) {
  std::uint64_t first;
  std::uint64_t second;
  asm volatile("ld.relaxed.sys.global.v2.b64 {%0, %1}, [%2];" : "=l"(first), "=l"(second) : "l"(word) : "memory");
  return {static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(first >> 32U),
          static_cast<std::uint32_t>(second), static_cast<std::uint32_t>(second >> 32U)};
}

/// One tile's exchange of one multiplying thread.
template <std::size_t Values>
class RegisterExchange {
 public:
  static constexpr int words = static_cast<int>(Values) / 4;  // of 16 bytes, for each thread

  __device__ RegisterExchange(const GemmLaunch& launch, const GemmContext& context, std::uint32_t epoch,
                              std::int32_t tile)
      : launch_(launch), context_(context), epoch_(epoch), tile_(tile) {}

  /// Rows beyond the matrix belong to warps that have nothing to send.
  __device__ static bool takes_part(std::int32_t rows) {
    return static_cast<std::int32_t>(threadIdx.x / 32U % 4U * 16U) < rows;
  }

  __device__ void send(const float (&values)[Values]) const {
    for (std::int32_t step = 1; step < launch_.world; ++step) {
      const std::int32_t peer = (launch_.rank + step) % launch_.world;
      ExchangeWord* slot = slot_at(peer, launch_.rank);
#pragma unroll
      for (int word = 0; word < words; ++word) {
        store_exchange(slot + 128 * word, pack(values[4 * word], values[4 * word + 1]),
                       pack(values[4 * word + 2], values[4 * word + 3]), epoch_);
      }
    }
  }

  /// Adds what one peer has sent; polls until it is there.
  __device__ void add(float* values, std::int32_t peer) const {
    const ExchangeWord* slot = slot_at(launch_.rank, peer);
#pragma unroll
    for (int word = 0; word < words; ++word) {
      const ExchangeWord received = await_word(slot + 128 * word, peer);
      values[4 * word] += __uint_as_float(received.first << 16U);
      values[4 * word + 1] += __uint_as_float(received.first & 0xFFFF0000U);
      values[4 * word + 2] += __uint_as_float(received.second << 16U);
      values[4 * word + 3] += __uint_as_float(received.second & 0xFFFF0000U);
    }
  }

 private:
  __device__ static std::uint32_t pack(float low, float high) {
    const __nv_bfloat162 rounded = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<const std::uint32_t*>(&rounded);
  }

  /// First word of this thread: [parity of the call][source][tile][word][thread] at `rank`.
  [[nodiscard]] __device__ ExchangeWord* slot_at(std::int32_t rank, std::int32_t source) const {
    const std::int64_t tiles = (launch_.schedule.region(0).columns + 63) / 64;
    const std::int64_t index = (static_cast<std::int64_t>(epoch_ & 1U) * launch_.world + source) * tiles + tile_;
    return reinterpret_cast<ExchangeWord*>(launch_.exchange[rank]) + index * words * 128 + threadIdx.x % 128U;
  }

  [[nodiscard]] __device__ ExchangeWord await_word(const ExchangeWord* word, std::int32_t peer) const {
    ExchangeWord received = load_exchange(word);
    if (complete(received)) {
      return received;
    }
    const std::uint64_t start = global_nanoseconds();
    while (true) {
      for (int look = 0; look < 64; ++look) {
        received = load_exchange(word);
        if (complete(received)) {
          return received;
        }
      }
      if (gave_up(context_.waits, {WaitSite::partial_tile, peer, static_cast<std::uint32_t>(tile_), epoch_}, epoch_,
                  received.first_epoch, start)) {
        return received;
      }
    }
  }

  [[nodiscard]] __device__ bool complete(const ExchangeWord& word) const {
    return word.first_epoch == epoch_ && word.second_epoch == epoch_;
  }

  const GemmLaunch& launch_;
  const GemmContext& context_;
  const std::uint32_t epoch_;
  const std::int32_t tile_;
};

}  // namespace xstage::kernels
