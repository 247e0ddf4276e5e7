#pragma once
// Shared memory of a CTA of combine: barriers of all rings | notes of their pieces | stages

#include "kernels/moe/moe_exchange_ring.cuh"

namespace xstage::kernels {

inline constexpr std::int32_t combine_threads = 512;
inline constexpr std::int32_t combine_warps = combine_threads / 32;
static_assert(combine_warps > most_moe_senders);

/// A piece that a sender has loaded, and where it goes.
struct SentPiece {
  char* to;
  std::int32_t bytes;
};

/// Where the parts begin. Host and device.
struct CombineLayout {
  std::int32_t pieces, stages, bytes;

  [[nodiscard]] XSTAGE_HOST_DEVICE static CombineLayout of(const CombineLaunch& launch) {
    const std::int32_t stages = launch.senders * launch.sender_ring.stages;
    CombineLayout layout{};
    layout.pieces = (stages * static_cast<std::int32_t>(sizeof(std::uint64_t)) + 15) / 16 * 16;
    layout.stages = (layout.pieces + stages * static_cast<std::int32_t>(sizeof(SentPiece)) + 127) / 128 * 128;
    layout.bytes = layout.stages + stages * launch.sender_ring.stage_bytes;
    return layout;
  }
};

class CombineShared {
 public:
  using Barrier = MoeStageRing::Barrier;

  [[nodiscard]] __device__ static MoeStageRing ring(const CombineLaunch& launch, std::int32_t sender) {
    const MoeRing& ring = launch.sender_ring;
    const std::int32_t before = sender * ring.stages;
    return {ring, reinterpret_cast<Barrier*>(base()) + before,
            base() + CombineLayout::of(launch).stages + before * ring.stage_bytes};
  }
  [[nodiscard]] __device__ static SentPiece* pieces(const CombineLaunch& launch, std::int32_t sender) {
    return reinterpret_cast<SentPiece*>(base() + CombineLayout::of(launch).pieces) + sender * launch.sender_ring.stages;
  }

 private:
  [[nodiscard]] __device__ static char* base() {
    extern __shared__ __align__(128) char combine_shared[];
    return combine_shared;
  }
};

}  // namespace xstage::kernels
