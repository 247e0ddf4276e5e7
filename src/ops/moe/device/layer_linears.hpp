#pragma once
// Linear-1 and Linear-2 of one rank's experts, as two grouped GEMMs: they read the rows that dispatch wrote, and write
// those that combine sends back.

#include <cstdint>

#include "ops/moe/device/grouped.hpp"
#include "ops/moe/device/parameters.hpp"
#include "xstage/moe.hpp"

namespace xstage::kernels {

class LayerLinears {
 public:
  /// Loads all kernels that any launch may choose. `plan` is complete.
  LayerLinears(const moe::Problem& problem, const MoeRows& rows, std::int64_t most_rows, const moe::Plan& plan);

  /// Prepares launches for weights at these addresses. Tiles are chosen by `expected_rows`, the rows of all experts of
  /// the rank; results do not depend on it. Does nothing if no argument has changed.
  void prepare(const void* linear1, const void* linear2, std::int64_t expected_rows);

  [[nodiscard]] const GroupedGemm& linear1() const { return linear1_; }
  [[nodiscard]] const GroupedGemm& linear2() const { return linear2_; }

 private:
  [[nodiscard]] GroupedPlan plan_of(const GroupedShape& shape, int tile_columns) const;
  [[nodiscard]] GroupedShape shape1(std::int64_t expected_rows) const;
  [[nodiscard]] GroupedShape shape2(std::int64_t expected_rows) const;
  [[nodiscard]] GroupedOperands operands(const void* rows, const void* weights, void* output) const;

  moe::Problem problem_;
  MoeRows rows_;
  std::int64_t most_rows_;
  moe::Plan plan_;
  const void* weights1_ = nullptr;
  const void* weights2_ = nullptr;
  std::int64_t expected_rows_ = 0;
  GroupedGemm linear1_;
  GroupedGemm linear2_;
};

}  // namespace xstage::kernels
