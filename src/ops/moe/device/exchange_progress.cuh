#pragma once
// The progress of a CTA's senders, and the warp that signals it to peers.
//
//   sender --tokens that are stored--> word in shared memory --> poster --fence, flag--> peer
//
// A flag needs a fence before it, which queues behind all stores in flight towards the fabric: 9 us, and up to 20 us
// when the fabric is busy. A sender would store nothing in that time, so another warp does this, and one fence serves
// the flags of all senders for some tokens.

#include "ops/moe/device/exchange_ring.cuh"

namespace xstage::kernels {

/// Progress words in shared memory, [most_moe_senders][max_world].
class MoeProgress {
 public:
  static constexpr std::int32_t count = moe_progress_words;
  // A sender that has given up; peers learn of it from the abort word.
  static constexpr std::uint32_t stopped = 0xFFFFFFFFU;

  __device__ explicit MoeProgress(std::uint32_t* words) : words_(words) {}

  /// For all threads of the kernel's roles, before a barrier of them.
  __device__ void prepare(const RolePlace& place) const {
#pragma unroll 1
    for (std::int32_t word = place.thread(); word < count; word += place.threads()) {
      words_[word] = 0;
    }
  }
  /// Notes that `tokens` tokens are stored for that peer: bulk stores complete, ordinary ones issued. Any lane may call
  /// it, after the warp has synchronised.
  __device__ void note(std::int32_t sender, std::int32_t peer, std::uint32_t tokens) const {
    store_release_shared(words_ + sender * max_world + peer, tokens);
  }
  /// The same for a whole warp whose lanes have stored: lanes with something to note do so after all lanes have
  /// arrived.
  template <class Delay>
  __device__ void note_of_warp(bool notes, std::int32_t sender, std::int32_t peer, std::uint32_t tokens,
                               Delay& delay) const {
    delay();
    __syncwarp();
    if (notes) {
      note(sender, peer, tokens);
    }
  }
  [[nodiscard]] __device__ std::uint32_t of(std::int32_t index) const { return load_acquire_shared(words_ + index); }

 private:
  std::uint32_t* const words_;
};

/// The warp that turns progress words into flags, until all senders have sent everything.
template <class Delay>
class MoePoster {
 public:
  /// `flags` is the word of the signal pad with the first flag of this kernel. `least` is the number of tokens, of all
  /// senders and peers together, that are worth a fence before the end.
  __device__ MoePoster(const CallParameters& call, const MoeProgress& progress, std::uint32_t flags,
                       std::int32_t senders, std::int32_t least, const RolePlace& place, const Delay& delay)
      : call_(call),
        progress_(progress),
        flags_(flags),
        senders_(senders),
        least_(least),
        block_(place.block),
        blocks_(place.blocks),
        delay_(delay) {}

  __device__ void run(std::uint32_t epoch) {
    std::uint32_t told[parts] = {};
#pragma unroll 1
    while (!look(told, epoch)) {
    }
  }

 private:
  static constexpr std::int32_t parts = MoeProgress::count / 32;  // words of a lane

  /// Polls the progress words, and signals peers if enough is new. Returns whether all senders have ended.
  __device__ bool look(std::uint32_t (&told)[parts], std::uint32_t epoch) {
    std::uint32_t sent[parts];
    std::uint32_t news = 0;
    bool ends = true;
#pragma unroll
    for (std::int32_t part = 0; part < parts; ++part) {
      sent[part] = exists(part) ? progress_.of(index(part)) : MoeProgress::stopped;
      const bool is_last = sent[part] == MoeProgress::stopped || sent[part] == MoeExchangePad::all_sent;
      news += is_last ? 0U : sent[part] - told[part];
      ends = ends && is_last;
    }
    ends = __all_sync(0xFFFFFFFFU, ends) != 0;
    if (ends || __reduce_add_sync(0xFFFFFFFFU, news) >= static_cast<std::uint32_t>(least_)) {
      tell(sent, told, epoch);
    }
    return ends;
  }

  __device__ void tell(const std::uint32_t (&sent)[parts], std::uint32_t (&told)[parts], std::uint32_t epoch) {
    delay_();
    // The fence orders the senders' ordinary stores. A proxy fence, which would take 5 us, is not needed, since senders
    // have waited for the completion of their bulk stores.
    fence_release();
    delay_();
#pragma unroll
    for (std::int32_t part = 0; part < parts; ++part) {
      if (sent[part] != told[part] && sent[part] != MoeProgress::stopped) {
        store_relaxed(
            call_.signals[peer(part)] + flags_ + MoeExchangePad::flag(call_.rank, block_, blocks_, sender(part)),
            flag_value(epoch, sent[part]));
        told[part] = sent[part];
      }
    }
  }

  [[nodiscard]] __device__ static std::int32_t index(std::int32_t part) { return lane_index() + 32 * part; }
  [[nodiscard]] __device__ static std::int32_t peer(std::int32_t part) { return index(part) % max_world; }
  [[nodiscard]] __device__ static std::int32_t sender(std::int32_t part) { return index(part) / max_world; }
  [[nodiscard]] __device__ bool exists(std::int32_t part) const {
    return sender(part) < senders_ && peer(part) < call_.world && peer(part) != call_.rank;
  }

  const CallParameters& call_;
  const MoeProgress progress_;
  const std::uint32_t flags_;
  const std::int32_t senders_;
  const std::int32_t least_;
  const std::int32_t block_;
  const std::int32_t blocks_;
  Delay delay_;
};

}  // namespace xstage::kernels
