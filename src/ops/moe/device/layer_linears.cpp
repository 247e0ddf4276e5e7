// Derives launches of the grouped GEMM from linear layers and their plans.

#include "ops/moe/device/layer_linears.hpp"

#include <fmt/format.h>

#include "device/tensor_map.hpp"
#include "xstage/error.hpp"

namespace xstage::kernels {

namespace {

void require(bool holds, const std::string& message) {
  if (!holds) {
    throw InputError("grouped GEMM: " + message);
  }
}

void check_shape(const GroupedShape& shape) {
  require(shape.experts >= 1 && shape.experts <= most_grouped_experts,
          fmt::format("{} experts: there must be 1 to {}", shape.experts, most_grouped_experts));
  const int unit = shape.gated ? 2 * chunk_columns : chunk_columns;
  require(shape.columns >= unit && shape.columns % unit == 0,
          fmt::format("{} columns: they must be a multiple of {}", shape.columns, unit));
  require(shape.depth >= gemm_tile_depth && shape.depth % gemm_tile_depth == 0,
          fmt::format("a depth of {}: it must be a multiple of {}", shape.depth, gemm_tile_depth));
}

void check_plan(const GroupedShape& shape, const GroupedPlan& plan) {
  require(plan.tile_columns == 128 || plan.tile_columns == 256,
          fmt::format("tiles of {} columns: they must have 128 or 256", plan.tile_columns));
  require(plan.cluster == 1 || plan.cluster == 2, fmt::format("{} CTAs a cluster: 1 or 2", plan.cluster));
  const int tiles = grouped_tiles(shape, plan.tile_columns);
  require(tiles % plan.cluster == 0,
          fmt::format("clusters of 2 CTAs need an even number of column tiles: {} / {} columns are {} tiles",
                      shape.columns, plan.tile_columns, tiles));
  require(plan.group >= 1 && plan.group * tiles < 65536,
          fmt::format("a group of {} rows of {} tiles: it must have between 1 and 65535", plan.group, tiles));
  require(plan.stages >= 2 && plan.stages <= most_grouped_stages,
          fmt::format("{} stages: there must be 2 to {}", plan.stages, most_grouped_stages));
  require(plan.staging >= 1 && plan.staging <= max_staging,
          fmt::format("{} chunks of staging: there must be 1 to {}", plan.staging, max_staging));
  const int bytes = grouped_shared_bytes(plan.tile_columns, plan.stages, plan.staging);
  require(bytes <= shared_memory_bytes,
          fmt::format("{} stages and {} chunks of staging take {} bytes of shared memory: at most {} are there",
                      plan.stages, plan.staging, bytes, shared_memory_bytes));
  require(plan.issuers >= plan.cluster && plan.issuers % plan.cluster == 0,
          fmt::format("{} CTAs: they must be whole clusters of {}", plan.issuers, plan.cluster));
}

}  // namespace

GroupedGemm make_grouped(const GroupedShape& shape, const GroupedPlan& plan, const GroupedOperands& operands) {
  check_shape(shape);
  check_plan(shape, plan);
  GroupedGemm gemm;
  gemm.tile_columns = plan.tile_columns;
  gemm.gated = shape.gated;
  gemm.issuers = plan.issuers;
  gemm.shared_bytes = grouped_shared_bytes(plan.tile_columns, plan.stages, plan.staging);

  GroupedLaunch& launch = gemm.launch;
  launch.experts = shape.experts;
  launch.columns = shape.columns;
  launch.output_columns = shape.gated ? shape.columns / 2 : shape.columns;
  launch.depth_blocks = shape.depth / gemm_tile_depth;
  const std::int64_t weight_rows = std::int64_t{shape.experts} * shape.columns;
  launch.rows = matrix_map(operands.rows, operands.most_rows, shape.depth, gemm_tile_rows);
  launch.half_rows = matrix_map(operands.rows, operands.most_rows, shape.depth, gemm_tile_rows / 2);
  launch.weights = matrix_map(operands.weights, weight_rows, shape.depth, plan.tile_columns);
  launch.half_weights = matrix_map(operands.weights, weight_rows, shape.depth, plan.tile_columns / 2);
  launch.output = matrix_map(operands.output, operands.most_rows, launch.output_columns, gemm_tile_rows / 2);
  launch.counts = operands.counts;
  launch.first_block = operands.first_block;
  launch.router_weights = operands.router_weights;
  launch.clamp = operands.clamp;
  launch.stages = plan.stages;
  launch.stage_bytes = grouped_stage_bytes(plan.tile_columns);
  launch.staging = plan.staging;
  launch.staging_offset = plan.stages * launch.stage_bytes;
  launch.behind_offset = launch.staging_offset + 2 * plan.staging * chunk_bytes;
  launch.tiling.start(grouped_block_rows, grouped_tiles(shape, plan.tile_columns), plan.cluster, plan.pair_blocks,
                      plan.group);
  return gemm;
}

LayerLinears::LayerLinears(const moe::Problem& problem, const MoeRows& rows, std::int64_t most_rows,
                           const moe::Plan& plan)
    : problem_(problem), rows_(rows), most_rows_(most_rows), plan_(plan) {
  for (const int tile_columns : {128, 256}) {
    for (const bool gated : {false, true}) {
      GroupedGemm any;
      any.tile_columns = tile_columns;
      any.gated = gated;
      load_grouped(any);
    }
  }
}

GroupedPlan LayerLinears::plan_of(const GroupedShape& shape, int tile_columns) const {
  GroupedPlan plan;
  plan.issuers = plan_.issuers;
  plan.tile_columns = tile_columns;
  if (plan_.issuers == 1) {  // no cluster fits, and the rule for tiles counts clusters
    plan.cluster = 1;
    plan.tile_columns = tile_columns == 0 ? 128 : tile_columns;
  }
  return complete_grouped_plan(shape, plan, plan_.issuers);
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
    linear1_ = make_grouped(shape, plan_of(shape, plan_.linear1_tile_columns),
                            operands(rows_.tokens, linear1, rows_.activations));
  }
  if (!same_rows || linear2 != weights2_) {
    const GroupedShape shape = shape2(expected_rows);
    linear2_ = make_grouped(shape, plan_of(shape, plan_.linear2_tile_columns),
                            operands(rows_.activations, linear2, rows_.results));
  }
  weights1_ = linear1;
  weights2_ = linear2;
  expected_rows_ = expected_rows;
}

}  // namespace xstage::kernels
