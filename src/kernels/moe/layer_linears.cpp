#include "kernels/moe/layer_linears.hpp"

namespace xstage::kernels {

LayerLinears::LayerLinears(const moe::Problem& problem, const MoeRows& rows, std::int64_t most_rows, int issuers)
    : problem_(problem), rows_(rows), most_rows_(most_rows), issuers_(issuers) {
  for (const int tile_columns : {128, 256}) {
    for (const bool gated : {false, true}) {
      GroupedGemm any;
      any.tile_columns = tile_columns;
      any.gated = gated;
      load_grouped(any);
    }
  }
}

GroupedPlan LayerLinears::plan_of(const GroupedShape& shape) const {
  GroupedPlan plan;
  plan.issuers = issuers_;
  if (issuers_ == 1) {  // no cluster fits, and the rule for tiles counts clusters
    plan.cluster = 1;
    plan.tile_columns = 128;
  }
  return complete_grouped_plan(shape, plan, issuers_);
}

GroupedShape LayerLinears::shape1(std::int64_t expected_rows) const {
  return {problem_.experts_per_rank, static_cast<std::int32_t>(2 * problem_.intermediate),
          static_cast<std::int32_t>(problem_.hidden), true, expected_rows};
}

GroupedShape LayerLinears::shape2(std::int64_t expected_rows) const {
  return {problem_.experts_per_rank, static_cast<std::int32_t>(problem_.hidden),
          static_cast<std::int32_t>(problem_.intermediate), false, expected_rows};
}

GroupedOperands LayerLinears::operands(const void* rows, const void* weights, void* output) const {
  return {rows, most_rows_, weights, output, rows_.counts, rows_.first_block, rows_.weights, problem_.clamp};
}

void LayerLinears::prepare(const void* linear1, const void* linear2, std::int64_t expected_rows) {
  const bool same_rows = expected_rows == expected_rows_;
  if (!same_rows || linear1 != weights1_) {
    const GroupedShape shape = shape1(expected_rows);
    linear1_ = make_grouped(shape, plan_of(shape), operands(rows_.tokens, linear1, rows_.activations));
  }
  if (!same_rows || linear2 != weights2_) {
    const GroupedShape shape = shape2(expected_rows);
    linear2_ = make_grouped(shape, plan_of(shape), operands(rows_.activations, linear2, rows_.results));
  }
  weights1_ = linear1;
  weights2_ = linear2;
  expected_rows_ = expected_rows;
}

}  // namespace xstage::kernels
