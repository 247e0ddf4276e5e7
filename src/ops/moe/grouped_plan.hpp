#pragma once
// Tile shape, cluster, ring and order of a grouped GEMM, and the rule that chooses them. Pure arithmetic, so that it
// can be tested without a GPU.

#include <algorithm>
#include <cstdint>

#include "tile/tile_shape.hpp"

namespace xstage::kernels {

inline constexpr int grouped_block_rows = gemm_tile_rows;
inline constexpr int most_grouped_experts = 256;
inline constexpr int most_grouped_stages = 8;

/// One linear layer.
struct GroupedShape {
  std::int32_t experts = 0;
  std::int32_t columns = 0;  // of one expert's weights: 2 * intermediate or hidden; a multiple of 64, gated of 128
  std::int32_t depth = 0;    // a multiple of 64
  bool gated = false;        // Linear-1
  std::int64_t expected_rows = 0;  // rows of all experts together: a hint that changes the speed and nothing else
};

struct GroupedPlan {
  int tile_columns = 0;  // 128 or 256
  int cluster = 0;       // CTAs: 1 or 2
  bool pair_blocks = true;
  int group = 8;
  int stages = 0;
  int staging = 0;
  int issuers = 0;  // CTAs
};

namespace grouped_detail {

inline std::int64_t divide_up(std::int64_t value, std::int64_t by) { return (value + by - 1) / by; }

/// Time of a k-block of a 128 x columns tile with operands in L2, and time between two tiles. These are estimates,
/// except 670, which was measured with the GEMM kernel.
inline double block_ns(int tile_columns) { return tile_columns == 256 ? 670 : 400; }
inline double between_tiles_ns(int tile_columns) { return tile_columns == 256 ? 1000 : 600; }

}  // namespace grouped_detail

inline int grouped_tiles(const GroupedShape& shape, int tile_columns) {
  return static_cast<int>(grouped_detail::divide_up(shape.columns, tile_columns));
}

/// Number of 64-column chunks in which half a tile leaves.
inline int grouped_chunks(bool gated, int tile_columns) { return tile_columns / (gated ? 2 : 1) / chunk_columns; }

inline int grouped_stage_bytes(int tile_columns) { return (gemm_tile_rows + tile_columns) * gemm_tile_depth * 2; }

/// Bytes of shared memory for barriers, tiles, counts and first blocks.
inline constexpr int grouped_behind_bytes = 3072;

inline int grouped_shared_bytes(int tile_columns, int stages, int staging) {
  return stages * grouped_stage_bytes(tile_columns) + 2 * staging * chunk_bytes + grouped_behind_bytes;
}

/// Number of stages of the deepest ring beside that much staging.
inline int most_stages_beside(int tile_columns, int staging) {
  const int left = shared_memory_bytes - grouped_shared_bytes(tile_columns, 0, staging);
  return std::min(left / grouped_stage_bytes(tile_columns), most_grouped_stages);
}

/// CTAs of a cluster: 2, which share operands, only if the columns of tiles come in pairs.
inline int grouped_cluster(const GroupedShape& shape, int tile_columns) {
  return grouped_tiles(shape, tile_columns) % 2 == 0 ? 2 : 1;
}

/// Time of the slowest CTA if all experts have the same number of rows.
inline double grouped_ns(const GroupedShape& shape, int tile_columns, int multiprocessors) {
  using grouped_detail::divide_up;
  const std::int64_t rows_each = std::max<std::int64_t>(divide_up(shape.expected_rows, shape.experts), 1);
  // With fewer rows than experts, most likely each row belongs to another expert.
  const std::int64_t with_rows = std::clamp<std::int64_t>(shape.expected_rows, 1, shape.experts);
  const std::int64_t blocks = with_rows * divide_up(rows_each, grouped_block_rows);
  const int cluster = grouped_cluster(shape, tile_columns);
  const std::int64_t cluster_tiles = blocks * grouped_tiles(shape, tile_columns) / cluster;
  const std::int64_t waves = divide_up(cluster_tiles, multiprocessors / cluster);
  const int depth_blocks = shape.depth / gemm_tile_depth;
  const double tile_ns =
      grouped_detail::block_ns(tile_columns) * depth_blocks + grouped_detail::between_tiles_ns(tile_columns);
  return static_cast<double>(waves) * tile_ns;
}

/// Fills in what `plan` leaves at 0.
inline GroupedPlan complete_grouped_plan(const GroupedShape& shape, GroupedPlan plan, int multiprocessors) {
  if (plan.tile_columns == 0) {
    const bool narrow = grouped_ns(shape, 128, multiprocessors) < grouped_ns(shape, 256, multiprocessors);
    plan.tile_columns = narrow ? 128 : 256;
  }
  if (plan.cluster == 0) {
    plan.cluster = grouped_cluster(shape, plan.tile_columns);
  }
  if (plan.staging == 0) {
    // Staging for a whole tile, or less beside a ring of four stages, or of as many as the caller asks for, since
    // weights come from memory. Linear-2 of 16 x 512 tokens, 4096, 1536: three stages and four chunks 689 TFLOP/s, four
    // and two 709.
    constexpr int least_stages = 4;
    plan.staging = grouped_chunks(shape.gated, plan.tile_columns);
    while (plan.staging > 1 &&
           most_stages_beside(plan.tile_columns, plan.staging) < std::max(plan.stages, least_stages)) {
      --plan.staging;
    }
  }
  if (plan.stages == 0) {
    plan.stages = most_stages_beside(plan.tile_columns, plan.staging);
  }
  if (plan.issuers == 0) {
    plan.issuers = multiprocessors;
  }
  plan.issuers -= plan.issuers % plan.cluster;
  return plan;
}

}  // namespace xstage::kernels
