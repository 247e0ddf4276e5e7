#pragma once
// Words that one GPU writes and another GPU polls. They are ordered by release and acquire at system scope (design rule
// 5): a flag released at GPU scope may overtake its data on the way to a peer.

#include <cstdint>

namespace xstage::kernels {

__device__ inline std::uint32_t load_acquire(const std::uint32_t* word) {
  std::uint32_t value;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
  return value;
}

__device__ inline std::uint32_t load_relaxed(const std::uint32_t* word) {
  std::uint32_t value;
  asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
  return value;
}

/// Turns earlier relaxed loads into acquires.
__device__ inline void fence_acquire() { asm volatile("fence.acq_rel.sys;" ::: "memory"); }

__device__ inline void store_release(std::uint32_t* word, std::uint32_t value) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
}

__device__ inline void store_relaxed(std::uint32_t* word, std::uint32_t value) {
  asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
}

/// Release fence before relaxed stores and additions: one fence serves the flags of all peers. It takes 1 us, and 4 us
/// while the fabric is full of stores, since it queues behind them.
__device__ inline void fence_release() { asm volatile("fence.release.sys;" ::: "memory"); }

/// The same for flags that only kernels of this GPU read.
__device__ inline void fence_release_on_gpu() { asm volatile("fence.release.gpu;" ::: "memory"); }

__device__ inline void add_relaxed(std::uint32_t* word, std::uint32_t value) {
  asm volatile("red.relaxed.sys.global.add.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
}

/// Proxy fence between a flag that was acquired by an ordinary load and bulk (async proxy) reads of the data behind it,
/// and between completed bulk writes and the release of their flag.
__device__ inline void fence_async_proxy() { asm volatile("fence.proxy.async;" ::: "memory"); }

/// Acquires a word that another warp of the CTA released.
__device__ inline std::uint32_t load_acquire_shared(const std::uint32_t* word) {
  std::uint32_t value;
  asm volatile("ld.acquire.cta.shared::cta.u32 %0, [%1];"
               : "=r"(value)
               : "r"(static_cast<std::uint32_t>(__cvta_generic_to_shared(word)))
               : "memory");
  return value;
}

__device__ inline void store_release_shared(std::uint32_t* word, std::uint32_t value) {
  asm volatile(
      "st.release.cta.shared::cta.u32 [%0], %1;" ::"r"(static_cast<std::uint32_t>(__cvta_generic_to_shared(word))),
      "r"(value)
      : "memory");
}

__device__ inline std::uint64_t global_nanoseconds() {
  std::uint64_t value;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(value));
  return value;
}

}  // namespace xstage::kernels
