#pragma once
// Operands of one mixture-of-experts layer on all of its GPUs.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bench/cuda/timing.hpp"
#include "device/device_memory.hpp"
#include "ops/moe/bench/cells.hpp"
#include "ops/moe/bench/routing.hpp"

namespace xstage::bench {

/// The weights of one model shape on all GPUs. One set of them suffices, since the weights of every shape are far
/// larger than L2. Cells of one shape share them.
class MoeWeights {
 public:
  /// Standard deviation 1/sqrt(hidden).
  MoeWeights(const Ranks& ranks, const moe::Shape& shape);

  [[nodiscard]] std::string_view shape() const { return shape_; }
  /// Packed.
  [[nodiscard]] const cuda::DeviceBuffer& linear1(int rank) const { return linear1_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] const cuda::DeviceBuffer& linear2(int rank) const { return linear2_[static_cast<std::size_t>(rank)]; }

 private:
  std::string_view shape_;
  std::vector<cuda::DeviceBuffer> linear1_;  // [rank]
  std::vector<cuda::DeviceBuffer> linear2_;
};

/// Operands of a cell. There are two sets of tokens, so that a row left over from the call before has other values than
/// a call expects.
class MoeOperands {
 public:
  /// Tokens have standard deviation 1. `routing` is the cell's, `weights` those of its shape, which outlive this.
  MoeOperands(const Ranks& ranks, const MoeCell& cell, const moe::Routing& routing, const MoeWeights& weights);

  [[nodiscard]] static int set_of(int call) { return call % sets; }

  /// Operands of one launch on a rank.
  [[nodiscard]] moe::Operands of_launch(int rank, int set) const;

  /// [tokens, hidden], of one set.
  [[nodiscard]] const void* tokens(int rank, int set) const {
    return at(rank).tokens[static_cast<std::size_t>(set)].as<void>();
  }
  /// Packed.
  [[nodiscard]] const void* linear1(int rank) const { return weights_.linear1(rank).as<void>(); }
  [[nodiscard]] const void* linear2(int rank) const { return weights_.linear2(rank).as<void>(); }
  [[nodiscard]] const cuda::DeviceBuffer& output(int rank) const { return at(rank).output; }

  /// How this treats L2, for the result file.
  [[nodiscard]] std::string l2_policy() const;

 private:
  static constexpr int sets = 2;

  struct OfRank {
    std::vector<cuda::DeviceBuffer> tokens;  // [sets]
    cuda::DeviceBuffer experts;
    cuda::DeviceBuffer router_weights;
    cuda::DeviceBuffer output;
  };

  [[nodiscard]] const OfRank& at(int rank) const { return of_rank_[static_cast<std::size_t>(rank)]; }

  const MoeWeights& weights_;
  std::int64_t tokens_ = 0;  // of each rank
  std::vector<OfRank> of_rank_;
};

}  // namespace xstage::bench
