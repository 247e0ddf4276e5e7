#pragma once
// The steps that the kernel of every collective call takes:
//
//   announce     one thread of a rank       signals all peers: "everything before this call in my stream has ended",
//                                           so they may overwrite what earlier kernels of this rank have read
//   await_peers  threads that store         waits for these signals, before their first store to a peer
//                to peers
//   post_done    threads that have stored   signals all peers, after their last store has been performed
//                to peers
//   leave        one thread of each CTA     opens the next call; in CTA 0 it first waits until peers have stored all
//                                           that they store here, so that the end of the kernel is the end of the call
//   open_next    one thread of each CTA     opens the next call without that wait (Completion::sent): a reader of what
//                                           peers store waits first
//
// Epochs count calls in device memory, so that graphs replay them without host work (design rule 8).

#include "fabric/bounded_wait.cuh"
#include "fabric/call_parameters.hpp"

namespace xstage::kernels {

/// State that all waits of that call share.
[[nodiscard]] __device__ inline WaitContext wait_context(const CallParameters& parameters) {
  return {parameters.report,      parameters.signals, CallPad::abort,
          parameters.time_out_ns, parameters.rank,    parameters.world};
}

class CollectiveCall {
 public:
  __device__ CollectiveCall(const CallParameters& parameters, std::int32_t block)
      : parameters_(parameters), block_(block) {}

  [[nodiscard]] __device__ bool alone() const { return parameters_.world == 1; }
  [[nodiscard]] __device__ std::uint32_t* own_signal(std::uint32_t word) const {
    return parameters_.signals[parameters_.rank] + word;
  }

  /// The number of this call. It must be read before any thread of the CTA leaves the call.
  [[nodiscard]] __device__ std::uint32_t epoch() const {
    return load_relaxed(own_signal(CallPad::epochs + static_cast<std::uint32_t>(block_)));
  }

  __device__ void announce(std::uint32_t epoch) const {
    fence_release();
    const std::uint32_t word = CallPad::entered + CallPad::line * static_cast<std::uint32_t>(parameters_.rank);
#pragma unroll 1
    for (std::int32_t peer = 0; peer < parameters_.world; ++peer) {
      if (peer != parameters_.rank) {
        store_relaxed(parameters_.signals[peer] + word, epoch);
      }
    }
  }

  /// Called before the first store of a call into peers' buffers: waits until no peer still reads what an earlier call
  /// left there. A peer that has entered call e has finished call e - 1; with two alternating buffers it may be one
  /// call behind (`lag`). Returns false if the wait gave up, in which case nothing may be stored to peers.
  [[nodiscard]] __device__ bool await_peers(std::uint32_t epoch, std::uint32_t lag = 0) const {
    bool entered = true;
#pragma unroll 1
    for (std::int32_t peer = 0; entered && peer < parameters_.world; ++peer) {
      if (peer != parameters_.rank) {
        entered =
            wait_at_least(waits(), {WaitSite::peer_entry, peer, 0, epoch},
                          own_signal(CallPad::entered + CallPad::line * static_cast<std::uint32_t>(peer)), epoch - lag);
      }
    }
    return entered;
  }

  /// Signals all peers that the caller's stores have been performed. The caller has fenced them.
  __device__ void post_done() const {
    const std::uint32_t word = CallPad::done + CallPad::line * static_cast<std::uint32_t>(parameters_.rank);
#pragma unroll 1
    for (std::int32_t peer = 0; peer < parameters_.world; ++peer) {
      if (peer != parameters_.rank) {
        add_relaxed(parameters_.signals[peer] + word, 1U);
      }
    }
  }

  /// `posts_each` is the number of posts of each peer in a call.
  __device__ void leave(std::uint32_t epoch, std::uint32_t posts_each) const {
    if (block_ == 0) {
      await_arrival(epoch, posts_each);
    }
    open_next(epoch);
  }

  /// Waits until peers have stored everything that they store here in that call. For one thread of a rank.
  __device__ void await_arrival(std::uint32_t epoch, std::uint32_t posts_each) const {
    await_peers_done(epoch, posts_each);
    report_abort(epoch);
  }

  __device__ void open_next(std::uint32_t epoch) const {
    store_relaxed(own_signal(CallPad::epochs + static_cast<std::uint32_t>(block_)), epoch + 1U);
  }

  [[nodiscard]] __device__ WaitContext waits() const { return wait_context(parameters_); }

  /// Waits until peers have stored everything that they store here. For one thread of a rank, which calls
  /// report_abort() next.
  __device__ void await_peers_done(std::uint32_t epoch, std::uint32_t posts_each) const {
#pragma unroll 1
    for (std::int32_t peer = 0; peer < parameters_.world; ++peer) {
      if (peer != parameters_.rank) {
        wait_at_least(waits(), {WaitSite::peer_done, peer, 0, epoch},
                      own_signal(CallPad::done + CallPad::line * static_cast<std::uint32_t>(peer)), epoch * posts_each);
      }
    }
  }

  /// Reports an abort of another rank. A rank that arrives after the others gave up may find all its waits fulfilled,
  /// and must not treat its results as valid.
  __device__ void report_abort(std::uint32_t epoch) const {
    if (load_relaxed(own_signal(CallPad::abort)) != 0U) {
      report_expiry(waits(), {WaitSite::end_of_call, parameters_.rank, 0, epoch}, 0, 0, 0, true);
    }
  }

 private:
  const CallParameters& parameters_;
  const std::int32_t block_;
};

/// Waits until all bulk stores of this thread have been performed, not only until they have read their source.
__device__ inline void await_bulk_stores() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }
/// Waits until their source may be overwritten.
__device__ inline void await_bulk_sources() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }
__device__ inline void commit_bulk_stores() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

}  // namespace xstage::kernels
