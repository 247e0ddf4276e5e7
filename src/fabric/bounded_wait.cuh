#pragma once
// Bounded waits for another rank (design rule 4). A wait ends with the awaited value, when it times out, or because
// another wait has given up. After a wait has given up the kernel runs on to its end with wrong results instead of
// stopping half-way: every pipeline inside a CTA then drains by itself, the process survives, and the host reads the
// report.

#include "fabric/signals.cuh"
#include "fabric/wait_report.hpp"

namespace xstage::kernels {

/// State that all waits of a launch share.
struct WaitContext {
  WaitReport* report;             // pinned host memory
  std::uint32_t* const* signals;  // signal pad of every rank
  std::uint32_t abort_word;       // word of each pad; a wait that gives up sets it on all ranks
  std::uint64_t time_out_ns;
  std::int32_t rank;
  std::int32_t world;
};

/// The counter that a wait polls, for its report.
struct WaitTarget {
  WaitSite site;
  std::int32_t peer;
  std::uint32_t index;
  std::uint32_t epoch;
};

/// Epochs grow without bound and wrap, so the signed distance is compared.
__device__ inline bool reached(std::uint32_t value, std::uint32_t expected) {
  return static_cast<std::int32_t>(value - expected) >= 0;
}

__device__ inline void raise_abort(const WaitContext& context) {
#pragma unroll 1
  for (int rank = 0; rank < context.world; ++rank) {
    store_relaxed(context.signals[rank] + context.abort_word, 1U);
  }
}

__device__ inline void report_expiry(const WaitContext& context, const WaitTarget& target, std::uint32_t expected,
                                     std::uint32_t observed, std::uint64_t waited_ns, bool told) {
  // A relaxed load comes first: where many threads give up at once, their exchanges would be serialised at the host's
  // memory.
  if (load_relaxed(&context.report->raised) == 0U && atomicCAS_system(&context.report->raised, 0U, 1U) == 0U) {
    WaitReport* report = context.report;
    report->site = static_cast<std::uint32_t>(target.site);
    report->rank = context.rank;
    report->peer = target.peer;
    report->index = target.index;
    report->expected = expected;
    report->observed = observed;
    report->block = blockIdx.x;
    report->epoch = target.epoch;
    report->told = told ? 1U : 0U;
    report->waited_us = static_cast<std::uint32_t>(waited_ns / 1000);
    store_release(&report->raised, 2U);
  }
  raise_abort(context);
}

/// Whether a wait must end without its value, because another wait gave up or because it has timed out. Fills the
/// report and sets the abort word of all ranks.
__device__ inline bool gave_up(const WaitContext& context, const WaitTarget& target, std::uint32_t expected,
                               std::uint32_t observed, std::uint64_t start_ns) {
  const bool told = load_relaxed(context.signals[context.rank] + context.abort_word) != 0U;
  const std::uint64_t waited = global_nanoseconds() - start_ns;
  if (!told && waited <= context.time_out_ns) {
    return false;
  }
  report_expiry(context, target, expected, observed, waited, told);
  return true;
}

/// Inlined, like all device code here: a call would make ptxas serialise WGMMA (C7510).
__device__ inline bool wait_slowly(const WaitContext& context, const WaitTarget& target, const std::uint32_t* word,
                                   std::uint32_t expected) {
  constexpr int looks_between_checks = 32;
  const std::uint64_t start = global_nanoseconds();
  std::uint32_t value = 0;
  do {
#pragma unroll 1  // kernels are short: cold code that they jump over costs them time, too
    for (int look = 0; look < looks_between_checks; ++look) {
      value = load_acquire(word);
      if (reached(value, expected)) {
        return true;
      }
    }
  } while (!gave_up(context, target, expected, value, start));
  return false;
}

/// Polls *word until it has reached `expected`. Returns false if the wait gave up. For one thread.
__device__ inline bool wait_at_least(const WaitContext& context, const WaitTarget& target, const std::uint32_t* word,
                                     std::uint32_t expected) {
  if (reached(load_acquire(word), expected)) {
    return true;
  }
  return wait_slowly(context, target, word, expected);
}

}  // namespace xstage::kernels
