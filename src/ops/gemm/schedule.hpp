#pragma once
// Which tile of a GEMM comes next. The same class runs in the kernel and in the CPU tests (design rule 3).
//
// The output is cut into regions: rectangles whose results have one destination. Regions are computed in the order in
// which they stand. The host puts them in the order that the fused operation needs (peers' rows first, or local rows
// first) and rotates it by rank, so that no two ranks store to the same peer at once.
//
//   gemm_reduce_scatter on rank 1 of 4          inside a region: groups of row clusters, rows fastest
//   +-----------------------+                    +----+----+----+----+
//   | rows of rank 0   3rd  |                    | 0  | 4  | 8  | 12 |
//   | rows of rank 1   last |                    | 1  | 5  | 9  | 13 |
//   | rows of rank 2   1st  |                    | 2  | 6  | 10 | 14 |
//   | rows of rank 3   2nd  |                    | 3  | 7  | 11 | 15 |
//   +-----------------------+                    +----+----+----+----+
//
// With 66 clusters of 256 x 256 at work, a group of 8 keeps about 2048 rows of A and 2048 of B in L2.

#include <cstdint>

#include "base/host_device.hpp"

namespace xstage::schedule {

/// Upper bound of the regions of a GEMM: Q, K and V for eight ranks.
inline constexpr int max_regions = 24;

/// A rectangle of the output, tiled from its own corner, so that no tile crosses its border.
struct GemmRegion {
  std::int32_t rows;
  std::int32_t columns;
  std::int32_t row_clusters;     // clusters of tiles along the rows
  std::int32_t column_clusters;  // and along the columns
};

/// Tile shape, and how many tiles along either side the CTAs of one cluster take together.
struct GemmTiling {
  std::int32_t tile_rows;
  std::int32_t tile_columns;
  std::int32_t cluster_rows;
  std::int32_t cluster_columns;
  std::int32_t group_rows;  // row clusters in a group, see above
};

/// One tile of one CTA.
struct GemmTile {
  std::int32_t region;
  std::int32_t row;     // first row, counted in the region
  std::int32_t column;  // first column, counted in the region
  bool inside;          // false: the CTA only helps its cluster, the tile lies outside of the region
};

class GemmSchedule {
 public:
  XSTAGE_HOST_DEVICE void start(const GemmTiling& tiling) {
    tiling_ = tiling;
    regions_ = 0;
    clusters_ = 0;
  }

  /// Appends a region; an empty one takes no time.
  XSTAGE_HOST_DEVICE void add_region(std::int32_t rows, std::int32_t columns) {
    GemmRegion& region = region_[regions_++];
    region.rows = rows;
    region.columns = columns;
    region.row_clusters = divide_up(rows, tiling_.tile_rows * tiling_.cluster_rows);
    region.column_clusters = divide_up(columns, tiling_.tile_columns * tiling_.cluster_columns);
    clusters_ += region.row_clusters * region.column_clusters;
  }

  /// Number of cluster tiles of all regions; valid indices of `tile` are less than this.
  XSTAGE_HOST_DEVICE std::int32_t cluster_tiles() const { return clusters_; }
  XSTAGE_HOST_DEVICE std::int32_t regions() const { return regions_; }
  XSTAGE_HOST_DEVICE const GemmRegion& region(std::int32_t index) const { return region_[index]; }
  XSTAGE_HOST_DEVICE const GemmTiling& tiling() const { return tiling_; }

  /// The tile that CTA `rank_in_cluster` takes of the cluster tile `index`.
  XSTAGE_HOST_DEVICE GemmTile tile(std::int32_t index, std::int32_t rank_in_cluster) const {
    std::int32_t region_index = 0;
    while (index >= region_[region_index].row_clusters * region_[region_index].column_clusters) {
      index -= region_[region_index].row_clusters * region_[region_index].column_clusters;
      ++region_index;
    }
    const GemmRegion& region = region_[region_index];
    // This runs before the first load of a launch, and each division takes 0.1 us: there are few divisions, and none
    // for the first group.
    const auto group_size = static_cast<std::uint32_t>(tiling_.group_rows * region.column_clusters);
    auto in_group = static_cast<std::uint32_t>(index);
    std::int32_t first_row = 0;
    if (in_group >= group_size) {
      const std::uint32_t group = in_group / group_size;
      first_row = static_cast<std::int32_t>(group) * tiling_.group_rows;
      in_group -= group * group_size;
    }
    const std::int32_t rows_left = region.row_clusters - first_row;
    const auto rows_here = static_cast<std::uint32_t>(rows_left < tiling_.group_rows ? rows_left : tiling_.group_rows);
    const std::uint32_t column = in_group / rows_here;
    const auto cluster_column = static_cast<std::int32_t>(column);
    const std::int32_t cluster_row = first_row + static_cast<std::int32_t>(in_group - column * rows_here);

    GemmTile tile;
    tile.region = region_index;
    tile.row = (cluster_row * tiling_.cluster_rows + row_in_cluster(rank_in_cluster)) * tiling_.tile_rows;
    tile.column =
        (cluster_column * tiling_.cluster_columns + column_in_cluster(rank_in_cluster)) * tiling_.tile_columns;
    tile.inside = tile.row < region.rows && tile.column < region.columns;
    return tile;
  }

 private:
  /// Ranks of a cluster go down its rows first; most clusters have one row or one column.
  XSTAGE_HOST_DEVICE std::int32_t row_in_cluster(std::int32_t rank) const {
    if (tiling_.cluster_rows == 1) {
      return 0;
    }
    return tiling_.cluster_columns == 1 ? rank : rank % tiling_.cluster_rows;
  }
  XSTAGE_HOST_DEVICE std::int32_t column_in_cluster(std::int32_t rank) const {
    if (tiling_.cluster_columns == 1) {
      return 0;
    }
    return tiling_.cluster_rows == 1 ? rank : rank / tiling_.cluster_rows;
  }

  XSTAGE_HOST_DEVICE static std::int32_t divide_up(std::int32_t value, std::int32_t by) {
    return (value + by - 1) / by;
  }

  GemmTiling tiling_;
  std::int32_t regions_;
  std::int32_t clusters_;
  GemmRegion region_[max_regions];
};

}  // namespace xstage::schedule
