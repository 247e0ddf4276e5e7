#pragma once
// Random operands of one cell on all of its GPUs.

#include <cstddef>
#include <string>
#include <vector>

#include "bench/cuda/operand_memory.hpp"
#include "bench/cuda/timing.hpp"
#include "device/device_memory.hpp"
#include "ops/attention/bench/cells.hpp"

namespace xstage::bench {

/// Queries, keys and values of each rank. There are several sets of them, so that they do not stay in L2 from one call
/// to the next. All have standard deviation 1, so that scores have it, too.
class AttentionOperands {
 public:
  AttentionOperands(const Ranks& ranks, const AttentionCell& cell);

  [[nodiscard]] int set_of(int call) const { return call % sets_; }
  /// Operands of a launch. Its output is the tensor that a plain attention fills and an all-to-all sends.
  [[nodiscard]] attention::Operands addresses(int rank, int set) const;
  [[nodiscard]] void* output(int rank) const { return output_[static_cast<std::size_t>(rank)].as<void>(); }
  [[nodiscard]] std::size_t output_bytes() const { return output_.front().bytes(); }
  /// How this treats L2, for the result file.
  [[nodiscard]] std::string l2_policy() const { return l2_policy_text(sets_, bytes_of_set_); }

 private:
  struct Set {
    cuda::DeviceBuffer query;
    cuda::DeviceBuffer key;
    cuda::DeviceBuffer value;
  };

  int sets_ = 1;
  std::size_t bytes_of_set_ = 0;
  std::vector<Set> operands_;               // [rank * sets + set]
  std::vector<cuda::DeviceBuffer> output_;  // [rank]
};

}  // namespace xstage::bench
