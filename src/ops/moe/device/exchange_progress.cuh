#pragma once
// How far a CTA's senders have come, and the warp that tells peers.
//
//   sender --tokens that are stored--> word in shared memory --> poster --fence, flag--> peer
//
// Before a flag comes a fence, which queues behind all stores on their way to the fabric: 9 us, up to 20, when it is
// busy. In that time a sender would store nothing, so it is another warp's work, and one fence serves the flags of all
// senders for some tokens.

#include "ops/moe/device/exchange_ring.cuh"

namespace xstage::kernels {

/// Words in shared memory: [most_moe_senders][max_world].
class MoeProgress {
 public:
  static constexpr std::int32_t count = moe_progress_words;
  static constexpr std::uint32_t stopped = 0xFFFFFFFFU;  // a sender that has given up: peers hear of it otherwise

  __device__ explicit MoeProgress(std::uint32_t* words) : words_(words) {}

  /// All threads of the kernel's roles, before a barrier of theirs.
  __device__ void prepare(const RolePlace& place) const {
#pragma unroll 1
    for (std::int32_t word = place.thread(); word < count; word += place.threads()) {
      words_[word] = 0;
    }
  }
  /// That so many tokens are stored for that peer: bulk stores complete, ordinary ones issued. Warps agree before; any
  /// lane.
  __device__ void note(std::int32_t sender, std::int32_t peer, std::uint32_t tokens) const {
    store_release_shared(words_ + sender * max_world + peer, tokens);
  }
  /// The same for a whole warp, whose lanes have stored: those with something to note do so when all have come.
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

/// The warp that turns words into flags, until all senders have sent all.
template <class Delay>
class MoePoster {
 public:
  /// `flags`: word of the signal pad with the first flag of this kernel. `least`: tokens worth telling before the end,
  /// of all senders and peers together.
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

  /// Whether there is nothing more to tell.
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
    // For senders' ordinary stores. No proxy fence: they have seen their bulk stores complete. It would take 5 us.
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
