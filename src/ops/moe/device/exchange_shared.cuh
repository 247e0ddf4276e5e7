#pragma once
// Shared memory of the roles of dispatch and combine; parameters.hpp has the layouts.

#include "ops/moe/device/exchange_progress.cuh"

namespace xstage::kernels {

class DispatchShared {
 public:
  using Barrier = MoeStageRing::Barrier;

  __device__ DispatchShared(const DispatchLaunch& launch, const RolePlace& place)
      : launch_(launch), layout_(DispatchLayout::of(launch)), offset_(place.shared_offset) {}

  [[nodiscard]] __device__ DispatchWords& words() const { return *at<DispatchWords>(layout_.words); }
  [[nodiscard]] __device__ MoeProgress progress() const { return MoeProgress(words().progress); }
  /// [experts]: choices of this rank's tokens before those of this CTA; later also the rows of the ranks before this
  /// one.
  [[nodiscard]] __device__ std::int32_t* before() const { return at<std::int32_t>(layout_.before); }
  /// [experts]: if every CTA counts all choices, those of the tokens behind this CTA's, then of all tokens; later the
  /// rows of all ranks.
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
