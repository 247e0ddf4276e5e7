#pragma once
// Random operands of one cell on all of its GPUs.

#include <memory>
#include <string>
#include <vector>

#include "bench/cuda/operand_memory.hpp"
#include "bench/cuda/timing.hpp"
#include "device/device_memory.hpp"
#include "ops/gemm/bench/cells.hpp"

namespace xstage::bench {

/// A and B of each rank's product. There are several sets of them, so that they do not stay in L2 from one call to the
/// next. A rank of a fused operation whose A is smaller takes the first rows.
class GemmOperands {
 public:
  /// A has standard deviation 1 and B 1/sqrt(k), so that results have 1.
  GemmOperands(const Ranks& ranks, const GemmCell& cell);

  [[nodiscard]] int sets() const { return sets_; }
  [[nodiscard]] int set_of(int call) const { return call % sets_; }
  [[nodiscard]] const void* a(int rank, int set) const { return at(a_, rank, set); }
  [[nodiscard]] const void* b(int rank, int set) const { return at(b_, rank, set); }
  /// Memory for a rank's results, shared by all variants.
  [[nodiscard]] void* output(int rank) const { return output_[static_cast<std::size_t>(rank)].as<void>(); }
  /// NaN everywhere.
  void poison_output(const Ranks& ranks, int rank) const;
  /// How this treats L2, for the result file.
  [[nodiscard]] std::string l2_policy() const;

 private:
  [[nodiscard]] const void* at(const std::vector<cuda::DeviceBuffer>& buffers, int rank, int set) const {
    return buffers[static_cast<std::size_t>(rank) * static_cast<std::size_t>(sets_) + static_cast<std::size_t>(set)]
        .as<void>();
  }

  int sets_ = 1;
  std::size_t bytes_of_set_ = 0;
  std::vector<cuda::DeviceBuffer> a_;  // [rank * sets + set]
  std::vector<cuda::DeviceBuffer> b_;
  std::vector<cuda::DeviceBuffer> output_;  // [rank]
};

}  // namespace xstage::bench
