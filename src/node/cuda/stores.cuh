#pragma once
// The four store paths: how one producer puts B bytes into the destination.

#include "node/cuda/burst_parameters.hpp"
#include "node/cuda/payload.hpp"

namespace xstage::cuda {

/// Chunk of one bulk copy: the 8 KiB that a 64-column sub-tile of 64 bf16 rows has; larger chunks measured alike.
inline constexpr int bulk_chunk_bytes = 8192;
/// Shared-memory source of the bulk path; longer bursts read it again from its start.
inline constexpr int bulk_source_bytes = 65536;

template <int WordsPerStore>
__device__ inline void store_words(char* destination, std::uint32_t first) {
  static_assert(WordsPerStore == 1 || WordsPerStore == 2 || WordsPerStore == 4);
  if constexpr (WordsPerStore == 1) {
    asm volatile("st.global.u32 [%0], %1;" ::"l"(destination), "r"(first) : "memory");
  } else if constexpr (WordsPerStore == 2) {
    asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(destination), "r"(first), "r"(first + payload_word_step)
                 : "memory");
  } else {
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(destination), "r"(first),
                 "r"(first + payload_word_step), "r"(first + 2 * payload_word_step), "r"(first + 3 * payload_word_step)
                 : "memory");
  }
}

/// All threads of the producer store. Consecutive threads store consecutive words, so that a warp fills whole lines.
template <int WordsPerStore>
__device__ inline void store_burst(char* destination, std::int64_t bytes, std::uint32_t base) {
  constexpr int width = 4 * WordsPerStore;
  const std::int64_t step = static_cast<std::int64_t>(blockDim.x) * width;
#pragma unroll 4
  for (std::int64_t offset = static_cast<std::int64_t>(threadIdx.x) * width; offset < bytes; offset += step) {
    store_words<WordsPerStore>(destination + offset, payload_word(base, static_cast<std::uint32_t>(offset / 4)));
  }
}

/// Fills the bulk path's source once. Every thread fences its own generic writes before the barrier that the caller
/// makes.
__device__ inline void fill_bulk_source(char* source, std::uint32_t base) {
  for (std::uint32_t word = threadIdx.x; word < bulk_source_bytes / 4; word += blockDim.x) {
    reinterpret_cast<std::uint32_t*>(source)[word] = payload_word(base, word);
  }
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

/// One thread issues bulk copies and then waits until the source may be written again. That wait shows back-pressure.
__device__ inline void bulk_burst(char* destination, std::int64_t bytes, const char* source) {
#if __CUDA_ARCH__ >= 900
  for (std::int64_t offset = 0; offset < bytes; offset += bulk_chunk_bytes) {
    const std::int64_t left = bytes - offset;
    const auto size = static_cast<std::uint32_t>(left < bulk_chunk_bytes ? left : bulk_chunk_bytes);
    const auto from = static_cast<std::uint32_t>(__cvta_generic_to_shared(source + offset % bulk_source_bytes));
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(destination + offset), "r"(from),
                 "r"(size)
                 : "memory");
  }
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
#endif
}

/// Waits for the bulk path's writes themselves, not only for the reads of their source: only then can a fence cover
/// them.
__device__ inline void wait_for_bulk_writes() {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
#endif
}

}  // namespace xstage::cuda
