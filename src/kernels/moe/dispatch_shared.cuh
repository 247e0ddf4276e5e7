#pragma once
// Shared memory of a CTA of dispatch.
//
//   barriers of all rings | words | before, all [experts] | next row [senders][experts] | stages

#include "kernels/moe/moe_exchange_progress.cuh"

namespace xstage::kernels {

inline constexpr std::int32_t dispatch_threads = 512;
inline constexpr std::int32_t dispatch_warps = dispatch_threads / 32;
static_assert(dispatch_warps >= max_world && dispatch_warps >= most_moe_senders);

/// What the warps of a CTA tell each other.
struct DispatchWords {
  std::uint32_t epoch;
  std::uint32_t passed_over;  // an earlier call has met a bad choice: this one does nothing
  std::uint32_t failed;       // before the first row: that, or a peer has not entered, or a CTA has not counted
  std::uint32_t bad_choice;   // mark of the first that this CTA has counted, see MoeCountLine
  std::int32_t of_ranks[MoeCountLine::count][max_world];  // tokens; in CTA 0 also bad choices
  std::int32_t sender_end[most_moe_senders];  // behind the last token of each sender
  std::uint32_t progress[MoeProgress::count];
};

/// Where the parts begin. Host and device.
struct DispatchLayout {
  std::int32_t words, before, all, next, stages, bytes;

  [[nodiscard]] XSTAGE_HOST_DEVICE static DispatchLayout of(const DispatchLaunch& launch) {
    const auto up_to = [](std::int32_t offset, std::int32_t alignment) {
      return (offset + alignment - 1) / alignment * alignment;
    };
    const std::int32_t experts = launch.exchange.experts() * static_cast<std::int32_t>(sizeof(std::int32_t));
    const std::int32_t stages = launch.senders * launch.ring.stages;
    DispatchLayout layout{};
    layout.words = stages * static_cast<std::int32_t>(sizeof(std::uint64_t));
    layout.before = layout.words + static_cast<std::int32_t>(sizeof(DispatchWords));
    layout.all = layout.before + experts;
    layout.next = layout.all + experts;
    layout.stages = up_to(layout.next + launch.senders * experts, 128);
    layout.bytes = layout.stages + stages * launch.ring.stage_bytes;
    return layout;
  }
};

class DispatchShared {
 public:
  using Barrier = MoeStageRing::Barrier;

  __device__ DispatchShared(const DispatchLaunch& launch, const RolePlace& place)
      : launch_(launch), layout_(DispatchLayout::of(launch)), offset_(place.shared_offset) {}

  [[nodiscard]] __device__ DispatchWords& words() const { return *at<DispatchWords>(layout_.words); }
  [[nodiscard]] __device__ MoeProgress progress() const { return MoeProgress(words().progress); }
  /// [experts]: choices of this rank's tokens before those of this CTA; later rows of all ranks before them.
  [[nodiscard]] __device__ std::int32_t* before() const { return at<std::int32_t>(layout_.before); }
  /// [experts]: where every CTA counts all choices, those of tokens behind this CTA's, then of all; later rows of all
  /// ranks.
  [[nodiscard]] __device__ std::int32_t* all() const { return at<std::int32_t>(layout_.all); }
  /// [experts]: choices of the sender's tokens; later the row of its next choice.
  [[nodiscard]] __device__ std::int32_t* next_row(std::int32_t sender) const {
    return at<std::int32_t>(layout_.next) + sender * launch_.exchange.experts();
  }
  [[nodiscard]] __device__ MoeStageRing ring(std::int32_t sender) const {
    const MoeRing& ring = launch_.ring;
    return {ring, at<Barrier>(0) + sender * ring.stages,
            at<char>(layout_.stages) + sender * ring.stages * ring.stage_bytes};
  }

 private:
  template <class Type>
  [[nodiscard]] __device__ Type* at(std::int32_t offset) const {
    return role_shared<Type>(offset_ + offset);
  }

  const DispatchLaunch& launch_;
  const DispatchLayout layout_;
  const std::int32_t offset_;
};

}  // namespace xstage::kernels
