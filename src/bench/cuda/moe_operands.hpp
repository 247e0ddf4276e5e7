#pragma once
// Operands of one mixture-of-experts layer on all its GPUs.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/cuda/random_block.hpp"
#include "bench/cuda/timing.hpp"
#include "bench/moe_cells.hpp"
#include "moe/routing.hpp"
#include "node/cuda/device_memory.hpp"

namespace xstage::bench {

/// Weights, of every shape far more than L2 holds, are there once. Tokens are there twice: a row that is left over from
/// the call before is not the one that a call wants.
class MoeOperands {
 public:
  /// Tokens have standard deviation 1, weights 1/sqrt(hidden). `routing` is the cell's.
  MoeOperands(const Ranks& ranks, const MoeCell& cell, const moe::Routing& routing, const RandomBlock& for_tokens,
              const RandomBlock& for_weights);

  [[nodiscard]] static int set_of(int call) { return call % sets; }

  /// Of one launch on a rank.
  [[nodiscard]] moe::Operands of_launch(int rank, int set) const;

  /// [tokens, hidden], of one set.
  [[nodiscard]] const void* tokens(int rank, int set) const {
    return at(rank).tokens[static_cast<std::size_t>(set)].as<void>();
  }
  /// Packed.
  [[nodiscard]] const void* linear1(int rank) const { return at(rank).linear1.as<void>(); }
  [[nodiscard]] const void* linear2(int rank) const { return at(rank).linear2.as<void>(); }
  [[nodiscard]] const cuda::DeviceBuffer& output(int rank) const { return at(rank).output; }

  /// How this treats L2, for the result file.
  [[nodiscard]] std::string l2_policy() const;

 private:
  static constexpr int sets = 2;

  struct OfRank {
    std::vector<cuda::DeviceBuffer> tokens;  // [sets]
    cuda::DeviceBuffer experts;
    cuda::DeviceBuffer router_weights;
    cuda::DeviceBuffer linear1;
    cuda::DeviceBuffer linear2;
    cuda::DeviceBuffer output;
  };

  [[nodiscard]] const OfRank& at(int rank) const { return of_rank_[static_cast<std::size_t>(rank)]; }

  std::int64_t tokens_ = 0;  // of each rank
  std::vector<OfRank> of_rank_;
};

}  // namespace xstage::bench
