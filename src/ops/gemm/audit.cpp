// Prediction of the Burst-Gap model for a fused GEMM. Equations are named as in xstage/model.hpp; the platform's
// numbers are those of the plan's store path.
//
//   predicted = waves x main loop + stalls of all boundaries but the last + tail + launch
//
// Not modelled: the latency of flags between ranks (a microsecond or two, which only a single wave fails to hide),
// groups of stores that wait for each other (`window`), congested receivers, and operands that load more slowly while
// much is stored, which the plan's pacing is there to limit. The stores of an exchange through registers are neither
// staged nor paced. Between its waves they count as if they were; in its last wave, which mostly is its only one, they
// do not.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "ops/gemm/layout.hpp"
#include "xstage/error.hpp"
#include "xstage/model.hpp"

namespace xstage::gemm {

namespace {

/// Time of the kernel outside its main loops: start of the grid, first operands, last stores. Measured on H200.
constexpr double launch_us = 4;

/// The audited rank, which has as many rows as any.
constexpr int audited_rank = 0;

/// The stores of all CTAs to peers after they have multiplied one wave of tiles.
struct Boundary {
  int producers = 0;  // CTAs that store to a peer
  double bytes = 0;   // V of all these CTAs
  bool wide = false;  // the tiles include partial sums in fp32
};

/// Number of peers that receive a tile of this region.
int peer_copies(const Layout& layout, const kernels::GemmRegionTarget& target, int world) {
  if (target.exchange != 0) {
    return world - 1;
  }
  if (target.local_output != 0) {
    return 0;
  }
  const auto first = layout.outputs.begin() + target.output_map;
  return static_cast<int>(std::count_if(first, first + target.output_copies,
                                        [](const OutputTarget& output) { return output.rank != audited_rank; }));
}

bool leaves_wide(const kernels::GemmRegionTarget& target) { return target.raw != 0 && target.wide != 0; }

/// Bytes of one copy of a tile: bf16, or fp32 for wide partial sums, clipped at the matrix. An exchange through
/// registers sends tiles in their whole width, in units of the 16 rows of a warp (ops/gemm/device/exchange.cuh).
double tile_bytes(const Layout& layout, const schedule::GemmTile& tile, const kernels::GemmRegionTarget& target) {
  const schedule::GemmRegion& region = layout.schedule.region(tile.region);
  const schedule::GemmTiling& tiling = layout.schedule.tiling();
  const int rows = std::min(tiling.tile_rows, region.rows - tile.row);
  const int columns = std::min(tiling.tile_columns, region.columns - tile.column);
  const int rows_of_warps = (rows + 15) / 16 * 16;
  if (target.exchange != 0) {
    return 2.0 * rows_of_warps * tiling.tile_columns;
  }
  return (leaves_wide(target) ? 4.0 : 2.0) * rows * columns;
}

void add_tile(Boundary& boundary, const Layout& layout, const schedule::GemmTile& tile, int world) {
  const kernels::GemmRegionTarget& target = layout.targets[static_cast<std::size_t>(tile.region)];
  const int copies = tile.inside ? peer_copies(layout, target, world) : 0;
  if (copies > 0) {
    boundary.producers += 1;
    boundary.bytes += copies * tile_bytes(layout, tile, target);
    boundary.wide = boundary.wide || leaves_wide(target);
  }
}

/// The boundaries, one for each wave, in the order in which the kernel takes its tiles.
std::vector<Boundary> boundaries_of(const Layout& layout, const Plan& plan, int world) {
  const int cluster = plan.cluster_rows * plan.cluster_columns;
  const int clusters = plan.issuers / cluster;
  const int tiles = layout.schedule.cluster_tiles();
  std::vector<Boundary> boundaries(static_cast<std::size_t>((tiles + clusters - 1) / clusters));
  for (int index = 0; index < tiles; ++index) {
    for (int rank_in_cluster = 0; rank_in_cluster < cluster; ++rank_in_cluster) {
      add_tile(boundaries[static_cast<std::size_t>(index / clusters)], layout,
               layout.schedule.tile(index, rank_in_cluster), world);
    }
  }
  return boundaries;
}

/// The gap G: a tile's multiplications over the rate of one multiprocessor. A clipped tile takes as long as a whole
/// one.
double main_loop_time_us(const Layout& layout, const Plan& plan, int multiprocessors, double tensor_tflops) {
  const double operations = 2.0 * kernels::gemm_tile_rows * plan.tile_columns * static_cast<double>(layout.a.columns);
  return operations / (tensor_tflops * 1e6 / multiprocessors);
}

/// Number of 8-KiB chunks in which one warpgroup's part of a tile leaves.
int chunks_of_tile(const Boundary& boundary, const Plan& plan) {
  return plan.tile_columns / (boundary.wide ? kernels::wide_chunk_columns : kernels::chunk_columns);
}

/// Fraction of a tile that fits into staging, so that its warpgroup need not wait until it is stored.
double staged_share(const Boundary& boundary, const Plan& plan) {
  return std::min(1.0, static_cast<double>(plan.staging_chunks) / chunks_of_tile(boundary, plan));
}

/// Lower bound of the time of one tile's stores, each group of which waits for the store warp's interval.
double paced_store_us(const Boundary& boundary, const Plan& plan) {
  const int groups = chunks_of_tile(boundary, plan) * (64 / plan.store_rows);
  return std::max(0, plan.store_interval_ns) * 1e-3 * groups;
}

/// The platform's numbers at a boundary.
model::OperatingPoint point_of(const Boundary& boundary, const Plan& plan, const Platform& platform,
                               bool& capacity_known) {
  constexpr double granule = 16;  // the width that every store path divides
  const double bytes_each = std::ceil(boundary.bytes / boundary.producers / granule) * granule;
  OperatingPointOrReason found = operating_point(platform, plan.store_path, boundary.producers, bytes_each);
  if (!found.usable) {
    throw InputError(fmt::format("platform {}: cannot audit {} CTAs that store {:.0f} bytes each: {}",
                                 platform.node.name, boundary.producers, bytes_each, fmt::join(found.reasons, "; ")));
  }
  found.point.volume_bytes = boundary.bytes;  // clipped tiles have fewer bytes
  capacity_known = found.capacity_known;
  return found.point;
}

/// The point with pacing and staging. Paced stores drain at min(R, V / paced time), and then nothing waits in the
/// X-Stage, so that staging alone is the capacity. For the warpgroup only the bytes that are not staged have an issue
/// time.
model::OperatingPoint planned_point(model::OperatingPoint point, const Boundary& boundary, const Plan& plan) {
  const double share = staged_share(boundary, plan);
  const double paced_us = paced_store_us(boundary, plan);
  if (paced_us > model::drain_time_us(point)) {
    point.drain_bytes_per_us = point.volume_bytes / paced_us;
    point.capacity_bytes = 0;
  }
  point.capacity_bytes += share * point.volume_bytes;
  point.issue_floor_us = (1 - share) * std::max(point.issue_floor_us, paced_us);
  return point;
}

/// Stall at a boundary between two waves.
struct Stall {
  double drain_us = 0;
  double free_running_us = 0;
  double aligned_us = 0;
};

/// Evaluates free_running::issue_us, max(T_iss0, V/R - G), and aligned::issue_us, max(T_iss0, V/R - min(G, Q/R)), at
/// the planned point.
Stall stall_of(const Boundary& boundary, const Plan& plan, const Platform& platform, double gap_us) {
  if (boundary.producers == 0) {
    return {};
  }
  bool capacity_known = true;
  const model::OperatingPoint at_full_rate = point_of(boundary, plan, platform, capacity_known);
  const model::OperatingPoint point = planned_point(at_full_rate, boundary, plan);
  const bool depends_on_capacity = point.drain_bytes_per_us == at_full_rate.drain_bytes_per_us;
  return {model::drain_time_us(point), model::free_running::issue_us(point, gap_us),
          capacity_known || !depends_on_capacity ? model::aligned::issue_us(point, gap_us) : not_measured};
}

/// Removes pacing from the plan at the last boundary: nothing follows that its stores could delay.
Plan plan_at(bool is_last, Plan plan) {
  plan.store_interval_ns = is_last ? 0 : plan.store_interval_ns;
  return plan;
}

/// Audits operations whose tiles are stored to peers. The tail is V/R of the last boundary, which includes partial sums
/// that the last own tiles wait for.
void audit_stores(PlanAudit& audit, const std::vector<Boundary>& boundaries, const Plan& plan,
                  const Platform& platform) {
  double stalls_us = 0;
  for (const Boundary& boundary : boundaries) {
    const bool is_last = &boundary == &boundaries.back();
    const Stall stall = stall_of(boundary, plan_at(is_last, plan), platform, audit.main_loop_us);
    if (is_last) {
      audit.tail_us = stall.drain_us;
    } else {
      stalls_us += stall.free_running_us;
    }
    if (boundary.bytes > audit.remote_bytes) {
      audit.remote_bytes = boundary.bytes;
      audit.drain_us = stall.drain_us;
      audit.stall_us = stall.free_running_us;
      audit.aligned_stall_us = stall.aligned_us;
    }
    audit.all_remote_bytes += boundary.bytes;
  }
  audit.predicted_us = audit.waves * audit.main_loop_us + stalls_us + audit.tail_us + audit.launch_us;
}

/// Rate at which a rank sends its shard, in bytes per microsecond: R, or the rate that the push's pacing permits. The
/// profile does not contain the copy engine, which does not drain more slowly than stores.
double shard_rate(const Plan& plan, const Platform& platform, int world) {
  bool capacity_known = true;
  const Boundary pieces{plan.issuers, double{kernels::push_piece_bytes} * (world - 1) * plan.issuers, false};
  const double rate = point_of(pieces, plan, platform, capacity_known).drain_bytes_per_us;
  const bool paced = plan.gather == GatherPath::push && plan.push_interval_ns > 0;
  return paced ? std::min(rate, pieces.bytes * plan.push_warps / (plan.push_interval_ns * 1e-3)) : rate;
}

/// Audits an all-gather. No warpgroup stores to a peer, so none stalls. Multiplication and arrival run at the same
/// time: the operation ends when all tiles are multiplied, and not before the last chunk to arrive is multiplied.
void audit_gather(PlanAudit& audit, const Layout& layout, const Plan& plan, const Platform& platform, int world) {
  const double rate = shard_rate(plan, platform, world);
  audit.all_remote_bytes = 2.0 * static_cast<double>(layout.a.rows * layout.a.columns) * (world - 1);
  const double arrived_us = audit.all_remote_bytes / rate;
  if (plan.gather == GatherPath::push) {
    audit.remote_bytes = std::min(audit.all_remote_bytes, rate * audit.main_loop_us);
    audit.drain_us = audit.remote_bytes / rate;
  }
  const double multiplied_us = audit.waves * audit.main_loop_us;
  const double last_chunk_us = audit.main_loop_us * plan.chunk_depth / static_cast<double>(layout.a.columns);
  audit.tail_us = std::max(0.0, arrived_us + std::min(last_chunk_us, audit.main_loop_us) - multiplied_us);
  audit.predicted_us = multiplied_us + audit.tail_us + audit.launch_us;
}

/// R without the limits of a plan.
double drain_rate(const Plan& plan, const Platform& platform) {
  const Estimate& rate = path_profile(platform, plan.store_path).drain_gb_per_s;
  if (!rate.value) {
    throw InputError(fmt::format("platform {}: drain rate R of {} unknown: {}", platform.node.name,
                                 name_of(plan.store_path), rate.reason));
  }
  return *rate.value * 1e3;
}

}  // namespace

PlanAudit audit_plan(const Problem& problem, const Plan& given_plan, int world, int multiprocessors,
                     const Platform& platform, double tensor_tflops) {
  check_problem(problem, world);
  if (!(std::isfinite(tensor_tflops) && tensor_tflops > 0)) {
    throw InputError(fmt::format("tensor_tflops is {}: it must be finite and above zero", tensor_tflops));
  }
  const Plan plan = complete_plan(problem, given_plan, world, multiprocessors);
  const Layout layout = make_layout(problem, plan, audited_rank, world);
  const std::vector<Boundary> boundaries = boundaries_of(layout, plan, world);
  PlanAudit audit;
  audit.waves = static_cast<int>(boundaries.size());
  audit.main_loop_us = main_loop_time_us(layout, plan, multiprocessors, tensor_tflops);
  audit.launch_us = launch_us;
  if (problem.operation == Operation::all_gather && world > 1) {
    audit_gather(audit, layout, plan, platform, world);
  } else {
    audit_stores(audit, boundaries, plan, platform);
  }
  if (audit.all_remote_bytes > 0) {
    audit.all_drain_us = audit.all_remote_bytes / drain_rate(plan, platform);
  }
  return audit;
}

}  // namespace xstage::gemm
