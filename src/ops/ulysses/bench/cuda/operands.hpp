#pragma once
// Random operands of one layer on all of its GPUs, and memory for the results of its operations.

#include <cstddef>
#include <string>
#include <vector>

#include "bench/cuda/operand_memory.hpp"
#include "bench/cuda/timing.hpp"
#include "device/device_memory.hpp"
#include "ops/ulysses/bench/cells.hpp"

namespace xstage::bench {

/// Hidden states and weights. There are several sets of them, so that they do not stay in L2 from one call to the next,
/// and so that a tile left over from the call before has other values than a call expects.
class UlyssesOperands {
 public:
  /// Hidden states have standard deviation 1, weights 1/sqrt(hidden): so have Q, K and V 1.
  UlyssesOperands(const Ranks& ranks, const UlyssesCell& cell);

  [[nodiscard]] int set_of(int call) const { return call % sets_; }
  /// [own tokens, hidden].
  [[nodiscard]] const void* states(int rank, int set) const { return set_at(rank, set).states.as<void>(); }
  /// [3 * hidden, hidden], the same on all ranks.
  [[nodiscard]] const void* projection_weights(int rank, int set) const {
    return set_at(rank, set).projection_weights.as<void>();
  }
  /// [hidden, hidden], the same on all ranks.
  [[nodiscard]] const void* output_weights(int rank, int set) const {
    return set_at(rank, set).output_weights.as<void>();
  }

  // Without communication an operation reads the result of the one before it, whatever layout that has: a third of
  // [own tokens, 3 * hidden] holds [tokens, heads of the rank, head_dim], and the result of attention is as large as
  // [own tokens, hidden]. The memory holds random numbers from the start, for parts that are timed alone.
  [[nodiscard]] void* projected(int rank) const { return at(projected_, rank).as<void>(); }
  [[nodiscard]] const void* projected_part(int rank, int part) const;
  [[nodiscard]] void* attended(int rank) const { return at(attended_, rank).as<void>(); }

  /// What a layer leaves, [own tokens, hidden].
  [[nodiscard]] const cuda::DeviceBuffer& result(int rank) const { return at(result_, rank); }
  /// How this treats L2, for the result file.
  [[nodiscard]] std::string l2_policy() const;

 private:
  struct Set {
    cuda::DeviceBuffer states;
    cuda::DeviceBuffer projection_weights;
    cuda::DeviceBuffer output_weights;
  };

  [[nodiscard]] const Set& set_at(int rank, int set) const {
    return operands_[static_cast<std::size_t>(rank) * static_cast<std::size_t>(sets_) + static_cast<std::size_t>(set)];
  }
  [[nodiscard]] static const cuda::DeviceBuffer& at(const std::vector<cuda::DeviceBuffer>& buffers, int rank) {
    return buffers[static_cast<std::size_t>(rank)];
  }

  int sets_ = 2;
  std::size_t bytes_of_set_ = 0;
  std::vector<Set> operands_;  // [rank * sets + set]
  std::vector<cuda::DeviceBuffer> projected_;
  std::vector<cuda::DeviceBuffer> attended_;
  std::vector<cuda::DeviceBuffer> result_;
};

}  // namespace xstage::bench
