#pragma once
// What the GPU tests of the grouped GEMM share: a linear layer of some experts with operands, output and reference.

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "device/device_memory.hpp"
#include "ops/moe/device/grouped.hpp"

namespace xstage::moe_test {

struct GroupedCase {
  kernels::GroupedShape shape;  // experts and expected rows come from the counts
  std::vector<std::int32_t> counts;
  float clamp = 0;
  kernels::GroupedPlan plan;  // what is 0 is up to the rule

  [[nodiscard]] std::string text() const;
};

template <typename Value>
void copy_to_gpu(const cuda::DeviceBuffer& buffer, const std::vector<Value>& values) {
  cuda::check(cudaMemcpy(buffer.as<void>(), values.data(), values.size() * sizeof(Value), cudaMemcpyHostToDevice),
              "copying to the GPU");
}

template <typename Value>
cuda::DeviceBuffer upload(const std::vector<Value>& values, const std::string& purpose) {
  cuda::DeviceBuffer buffer(0, std::max<std::size_t>(values.size(), 1) * sizeof(Value), purpose);
  copy_to_gpu(buffer, values);
  return buffer;
}

/// On GPU 0. Operands are random; whatever must have no influence on results is NaN: padding rows and their router
/// weights, weights of experts without rows. The output is poisoned, with guard rows before and behind it.
class GroupedLayer {
 public:
  GroupedLayer(const GroupedCase& which, std::uint64_t seed);

  [[nodiscard]] std::string text() const { return case_.text(); }

  void launch(cudaStream_t stream) const { kernels::launch_grouped(gemm_, stream); }

  /// Other counts and rows at the same addresses: nothing of the launch changes. No more blocks than at first, and rows
  /// only for experts that had some. The GPU must be idle.
  void set_counts(const std::vector<std::int32_t>& counts);
  /// NaN in the output and around it. The GPU must be idle.
  void poison() const;

  /// The rows of experts, one after the other.
  [[nodiscard]] std::vector<std::uint16_t> results() const;
  /// Compares the output with the reference: every element of the experts' rows is a number, a sample of them is right,
  /// nothing is written outside of the experts' blocks. Empty: all is well.
  [[nodiscard]] std::string complaint() const;

 private:
  void make_rows();
  void make_weights();
  void make_gemm();

  [[nodiscard]] std::vector<std::uint16_t> read_output() const;
  [[nodiscard]] std::string complaint_about_places(const std::vector<std::uint16_t>& output) const;
  [[nodiscard]] std::string complaint_about_values(const std::vector<std::uint16_t>& output) const;
  [[nodiscard]] double product(std::size_t row, std::int32_t expert, std::int64_t weight_row) const;
  [[nodiscard]] double expected(std::size_t row, std::int32_t expert, std::int64_t column) const;

  /// Elements of the guard rows before the output, as many as behind it.
  [[nodiscard]] std::size_t guard() const;
  /// First row of an expert, and the one behind its last.
  [[nodiscard]] std::size_t begin(std::int32_t expert) const;
  [[nodiscard]] std::size_t end(std::int32_t expert) const;

  GroupedCase case_;
  std::uint64_t seed_;
  std::vector<std::int32_t> first_block_;
  std::int32_t most_blocks_ = 0;
  std::int32_t output_columns_ = 0;
  std::vector<std::uint16_t> rows_, weights_;
  std::vector<float> router_weights_;
  cuda::DeviceBuffer rows_there_, weights_there_, counts_there_, first_block_there_, router_weights_there_;
  cuda::DeviceBuffer output_there_;
  kernels::GroupedGemm gemm_;
};

}  // namespace xstage::moe_test
