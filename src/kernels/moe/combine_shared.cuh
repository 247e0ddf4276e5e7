#pragma once
// Shared memory of a CTA of combine: barriers of all rings | progress | notes of their pieces | stages

#include "kernels/moe/moe_exchange_progress.cuh"

namespace xstage::kernels {

inline constexpr std::int32_t combine_threads = 512;
inline constexpr std::int32_t combine_warps = combine_threads / 32;
static_assert(combine_warps > most_moe_senders + 1);

/// A piece that a sender has loaded, and where it goes.
struct SentPiece {
  char* to;
  std::int32_t bytes;
};

/// Warps that add up: all but the senders and the one that tells peers.
[[nodiscard]] XSTAGE_HOST_DEVICE constexpr std::int32_t combine_adders(std::int32_t senders) {
  return combine_warps - senders - (senders != 0 ? 1 : 0);
}

/// Bytes [begin, end) of a row.
struct RowBytes {
  std::int32_t begin;
  std::int32_t end;

  /// Of one of `parts` that a row is cut into.
  [[nodiscard]] __device__ static RowBytes of_part(std::int32_t part, std::int32_t part_bytes, std::int32_t row_bytes) {
    return {part * part_bytes, min((part + 1) * part_bytes, row_bytes)};
  }
  [[nodiscard]] __device__ std::int32_t count() const { return end - begin; }
};

/// What CTAs take of a rank's tokens: whole ones, or parts of their rows where there are fewer tokens than CTAs, so
/// that all of them send and add up. The same on every rank, from the number of tokens.
struct CombineParts {
  static constexpr std::int32_t least_bytes = 2048;
  std::int32_t count;  // of a row
  std::int32_t bytes;  // of each of them, but for the last one; a multiple of 16
  MoeTokenRange own;   // parts of all tokens that one CTA has: part p is part p % count of token p / count

  [[nodiscard]] XSTAGE_HOST_DEVICE static CombineParts of(std::int32_t tokens, std::int32_t row_bytes,
                                                          std::int32_t block, std::int32_t blocks) {
    CombineParts parts{1, row_bytes, {}};
    if (tokens > 0 && blocks >= 2 * tokens && row_bytes >= 2 * least_bytes) {
      const std::int32_t wanted = blocks / tokens < row_bytes / least_bytes ? blocks / tokens : row_bytes / least_bytes;
      parts.bytes = (row_bytes / wanted + 15) / 16 * 16;
      parts.count = (row_bytes + parts.bytes - 1) / parts.bytes;
    }
    parts.own = MoeTokenRange::of(tokens * parts.count, block, blocks);
    return parts;
  }
};

/// Where the parts begin. Host and device.
struct CombineLayout {
  /// Of a sender, whichever ring it has.
  [[nodiscard]] XSTAGE_HOST_DEVICE static std::int32_t stages_of(const CombineLaunch& launch) {
    return launch.ring.stages > launch.ring_for_few.stages ? launch.ring.stages : launch.ring_for_few.stages;
  }
  [[nodiscard]] XSTAGE_HOST_DEVICE static std::int32_t ring_bytes(const CombineLaunch& launch) {
    const std::int32_t many = launch.ring.stages * launch.ring.stage_bytes;
    const std::int32_t few = launch.ring_for_few.stages * launch.ring_for_few.stage_bytes;
    return many > few ? many : few;
  }

  std::int32_t progress, pieces, stages, bytes;

  [[nodiscard]] XSTAGE_HOST_DEVICE static CombineLayout of(const CombineLaunch& launch) {
    const std::int32_t stages = launch.senders * stages_of(launch);
    CombineLayout layout{};
    layout.progress = (stages * static_cast<std::int32_t>(sizeof(std::uint64_t)) + 15) / 16 * 16;
    layout.pieces = layout.progress + MoeProgress::count * static_cast<std::int32_t>(sizeof(std::uint32_t));
    layout.stages = (layout.pieces + stages * static_cast<std::int32_t>(sizeof(SentPiece)) + 127) / 128 * 128;
    layout.bytes = layout.stages + launch.senders * ring_bytes(launch);
    return layout;
  }
};

class CombineShared {
 public:
  using Barrier = MoeStageRing::Barrier;

  __device__ CombineShared(const CombineLaunch& launch, const RolePlace& place)
      : launch_(launch), offset_(place.shared_offset) {}

  [[nodiscard]] __device__ MoeStageRing ring(std::int32_t sender) const {
    return {launch_.ring, at<Barrier>(0) + sender * CombineLayout::stages_of(launch_),
            at<char>(CombineLayout::of(launch_).stages) + sender * CombineLayout::ring_bytes(launch_)};
  }
  [[nodiscard]] __device__ MoeProgress progress() const {
    return MoeProgress(at<std::uint32_t>(CombineLayout::of(launch_).progress));
  }
  [[nodiscard]] __device__ SentPiece* pieces(std::int32_t sender) const {
    return at<SentPiece>(CombineLayout::of(launch_).pieces) + sender * CombineLayout::stages_of(launch_);
  }

 private:
  template <class Type>
  [[nodiscard]] __device__ Type* at(std::int32_t offset) const {
    return role_shared<Type>(offset_ + offset);
  }

  const CombineLaunch& launch_;
  const std::int32_t offset_;
};

}  // namespace xstage::kernels
