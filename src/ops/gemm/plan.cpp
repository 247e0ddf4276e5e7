#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "ops/gemm/layout.hpp"
#include "xstage/error.hpp"

namespace xstage::gemm {

namespace {

bool pushes(const Problem& problem, const Plan& plan, int world) {
  return problem.operation == Operation::all_gather && plan.gather == GatherPath::push && world > 1;
}

/// The GEMM that one rank computes, for any destination of its tiles.
struct LocalShape {
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t depth;
};

LocalShape local_shape(const Problem& problem, int world) {
  switch (problem.operation) {
    case Operation::reduce_scatter:
    case Operation::all_reduce:
      return {problem.m, problem.n, problem.k / world};
    case Operation::all_gather:
      return {problem.m, problem.n / world, problem.k};
    case Operation::all_to_all:
      return {row_range(problem.m, 0, world).count, problem.n, problem.k};
    case Operation::gemm:
      break;
  }
  return {problem.m, problem.n, problem.k};
}

/// Columns that the slowest multiprocessor multiplies with this tile width: the number of waves times the width.
std::int64_t columns_of_slowest(const LocalShape& shape, int tile_columns, int multiprocessors) {
  const std::int64_t tiles = (shape.rows + kernels::gemm_tile_rows - 1) / kernels::gemm_tile_rows *
                             ((shape.columns + tile_columns - 1) / tile_columns);
  return (tiles + multiprocessors - 1) / multiprocessors * tile_columns;
}

void check_field(bool holds, const char* name, int value, const std::string& rule) {
  if (!holds) {
    throw InputError(fmt::format("plan: {} is {}: {}", name, value, rule));
  }
}

/// Checks the operation's rules for tiles, and rules between fields.
void check_tiling(const Problem& problem, const Plan& plan) {
  check_field(!problem.gated || plan.tile_columns >= 128, "tile_columns", plan.tile_columns,
              "a gated epilogue needs 128 or 256");
  check_field(problem.operation != Operation::all_to_all || plan.tile_columns >= problem.head_dim, "tile_columns",
              plan.tile_columns, "a tile must hold whole heads");
  const bool one_shot = problem.operation == Operation::all_reduce && plan.all_reduce == AllReduceAlgorithm::one_shot;
  if (one_shot && problem.fp32_partials) {
    throw InputError("plan: an all-reduce in one shot exchanges bf16: fp32 partial sums need two_shot");
  }
  check_field(!one_shot || plan.tile_columns < 256, "tile_columns", plan.tile_columns,
              "an all-reduce in one shot needs 64 or 128");
  const int cluster = plan.cluster_rows * plan.cluster_columns;
  check_field(cluster <= 2, "cluster_rows x cluster_columns", cluster, "a cluster has one or two CTAs");
}

void check_issuers(const Plan& plan, int multiprocessors) {
  const int cluster = plan.cluster_rows * plan.cluster_columns;
  check_field(plan.issuers % cluster == 0, "issuers", plan.issuers, "it must be a multiple of the cluster's CTAs");
  check_field(plan.issuers <= multiprocessors, "issuers", plan.issuers,
              "there may be no more CTAs than multiprocessors, or the last ones never start while the others wait");
}

/// Share of the drain rate that the stores of all CTAs together may use. At the full rate the X-Stage is always full
/// and the operand loads behind it are late. Measured on 8192 x 8192 x 8192, reduce-scatter over GEMM alone: 1.11 at
/// the full rate, 1.05 at 0.72 of it.
constexpr double drain_share = 0.72;
/// With two waves of tiles or fewer the last stores end the operation, and late loads are the lesser evil: 2048 x 4096
/// x 4096 took 69 us at 0.72 and 62 us at 0.97.
constexpr double drain_share_of_few_waves = 0.97;

/// Interval at which each CTA may store `bytes`, so that all of them use this share of the drain rate.
int interval_ns(double bytes, int issuers, double share, double drain_gb_per_s) {
  return static_cast<int>(bytes * issuers / (share * drain_gb_per_s));  // 1 GB/s is 1 byte/ns
}

/// Largest number of columns that one CTA multiplies in all of its tiles.
std::int64_t most_columns(const Problem& problem, const Plan& plan, int world) {
  return columns_of_slowest(local_shape(problem, world), plan.tile_columns, plan.issuers);
}

double share_of_drain(const Problem& problem, const Plan& plan, int world) {
  return most_columns(problem, plan, world) <= 2 * plan.tile_columns ? drain_share_of_few_waves : drain_share;
}

void fill_store_interval(const Problem& problem, Plan& plan, int world) {
  if (plan.store_interval_ns >= 0) {
    return;
  }
  const int copies = problem.operation == Operation::all_reduce ? std::max(1, world - 1) : 1;
  const double share = share_of_drain(problem, plan, world);
  plan.store_interval_ns =
      world == 1 ? 0 : interval_ns(2.0 * plan.store_rows * 128 * copies, plan.issuers, share, plan.drain_gb_per_s);
}

/// With two push warps pacing permits a little more than the drain rate, since each warp also waits until its piece has
/// arrived: 2048 x 4096 x 4096 on two ranks took 54.7 us so, 58.8 us at 0.97 of the drain rate and 65.3 us at twice it.
constexpr double drain_share_of_two_pushers = 1.15;

/// Time that a k-block of a tile takes for each of its columns: 16384 x 5120 x 13824 on two ranks, 1440 us.
constexpr double column_block_ns = 670.0 / 256;

/// Part of the call after which a push should have arrived, times the number of ranks; its rows are then there in time.
/// A faster push only takes bandwidth from the loads: 16384 x 5120 x 13824 on two ranks took 1572 us at 0.72 of the
/// drain rate, where the push ends after 0.6 of the call, 1535 us where it ends after 0.8, and 1850 us where it ends
/// after the call.
constexpr double push_share_of_call = 1.6;

void fill_push_interval(const Problem& problem, Plan& plan, int world) {
  if (plan.push_interval_ns >= 0) {
    return;
  }
  const double bytes = double{kernels::push_piece_bytes} * plan.push_warps * (world - 1);
  const double share = plan.push_warps == 2 ? drain_share_of_two_pushers : share_of_drain(problem, plan, world);
  plan.push_interval_ns = world == 1 ? 0 : interval_ns(bytes, plan.issuers, share, plan.drain_gb_per_s);
  const std::int64_t columns = most_columns(problem, plan, world);
  if (!pushes(problem, plan, world) || columns <= 2 * plan.tile_columns) {
    return;
  }
  const auto divide_up = [](std::int64_t value, std::int64_t by) { return (value + by - 1) / by; };
  const std::int64_t depth_blocks = divide_up(problem.k, kernels::gemm_tile_depth);
  const std::int64_t row_blocks = divide_up(row_range(problem.m, 0, world).count, kernels::push_rows);
  const std::int64_t pieces = divide_up(row_blocks * depth_blocks, plan.issuers * plan.push_warps);
  const double call_ns = column_block_ns * static_cast<double>(columns * depth_blocks);
  const double slowest = push_share_of_call / world * call_ns / static_cast<double>(pieces);
  plan.push_interval_ns = std::max(plan.push_interval_ns, static_cast<int>(slowest));
}

}  // namespace

int multiplying_warpgroups(const Problem& problem, int world) {
  // In an all-gather the second store warp polls flags for the loader.
  const bool few_rows = local_shape(problem, world).rows <= kernels::gemm_tile_rows / 2;
  return few_rows && problem.operation != Operation::all_gather ? 1 : 2;
}

/// Half a tile where the cluster shares A, and no more rows than there are: rows beyond the matrix cost as much to load
/// as others, and with 16 of 128 rows the loads took twice their time. The other rows of a stage hold old data, which
/// is multiplied, too, and never stored.
int rows_of_a_load(const Problem& problem, const Plan& plan, int world) {
  if (plan.cluster_columns > 1) {
    return kernels::gemm_tile_rows / 2;
  }
  constexpr std::int64_t swizzle_rows = 8;
  const std::int64_t rows = std::max<std::int64_t>(local_shape(problem, world).rows, 1);
  return static_cast<int>(
      std::min<std::int64_t>(kernels::gemm_tile_rows, (rows + swizzle_rows - 1) / swizzle_rows * swizzle_rows));
}

SharedLayout shared_layout(const Problem& problem, const Plan& plan, int world) {
  constexpr std::int64_t row_bytes = std::int64_t{kernels::gemm_tile_depth} * 2;
  // WGMMA reads 64 rows of A, however many were loaded. With one warpgroup these rows may extend into B, with two they
  // must not.
  const bool short_a = multiplying_warpgroups(problem, world) == 1 && plan.cluster_columns == 1;
  SharedLayout layout;
  const std::int64_t a_rows = short_a ? rows_of_a_load(problem, plan, world) : kernels::gemm_tile_rows;
  const std::int64_t half_rows = kernels::gemm_tile_rows / 2;
  // Each load brings its rows of all k-blocks of the stage, one block behind the other.
  const std::int64_t rows_of_load = plan.cluster_columns > 1 ? half_rows : rows_of_a_load(problem, plan, world);
  layout.a_block_bytes = rows_of_load * row_bytes;
  layout.a_half_bytes = half_rows * row_bytes * (plan.cluster_columns > 1 ? plan.stage_blocks : 1);
  layout.b_offset = a_rows * row_bytes * plan.stage_blocks;
  layout.stage_bytes = layout.b_offset + plan.tile_columns * row_bytes * plan.stage_blocks;
  const std::int64_t ring = plan.stages * layout.stage_bytes;
  const std::int64_t staging = std::int64_t{2} * plan.staging_chunks * kernels::chunk_bytes;
  layout.staging_offset = plan.staging_over_ring == 1 ? 0 : ring;
  layout.push_offset = plan.staging_over_ring == 1 ? std::max(ring, staging) : ring + staging;
  // Pushed pieces are 128-byte swizzled, so that their place is aligned like a stage.
  layout.push_offset = (layout.push_offset + 1023) / 1024 * 1024;
  layout.barriers_offset = layout.push_offset + (pushes(problem, plan, world) ? kernels::push_bytes : 0);
  layout.bytes = layout.barriers_offset + kernels::behind_rings_bytes;
  return layout;
}

namespace {

/// Largest number of rows for a one-shot all-reduce: 256 rows took 48 us in one shot, 65 us in two.
constexpr std::int64_t one_shot_rows = 256;

bool reduces_in_one_shot(const Problem& problem) {
  return problem.operation == Operation::all_reduce && problem.m <= one_shot_rows && !problem.fp32_partials;
}

std::int64_t row_tiles(const LocalShape& shape) {
  return (shape.rows + kernels::gemm_tile_rows - 1) / kernels::gemm_tile_rows;
}

/// Chooses the widest tile, which has the least traffic for a multiplication, unless a narrower one fills more
/// multiprocessors.
void choose_tiles(const Problem& problem, Plan& plan, const LocalShape& shape, int multiprocessors) {
  if (reduces_in_one_shot(problem)) {
    plan.tile_columns = 128;
  }
  for (const int narrower : {128, 64}) {
    const bool allowed = narrower >= (problem.gated ? 128 : 64) &&
                         (problem.operation != Operation::all_to_all || narrower >= problem.head_dim);
    // A tile of half the width costs about a tenth more per column.
    if (allowed && 11 * columns_of_slowest(shape, narrower, multiprocessors) <
                       10 * columns_of_slowest(shape, plan.tile_columns, multiprocessors)) {
      plan.tile_columns = narrower;
    }
  }
  if (row_tiles(shape) < 2) {
    plan.cluster_rows = 1;  // sharing A between columns was slower: A is small, and one more CTA has to be waited for
  } else if (plan.tile_columns == 64) {
    plan.cluster_rows = 1;  // the larger operand of such a tile is A: 1024 x 1024 x 1024 took 6.6 us, sharing B 7.0
    plan.cluster_columns = 2;
  }
}

/// With few rows latency counts and not volume, and nothing follows that unpaced stores could delay.
void choose_reduction(const Problem& problem, Plan& plan) {
  if (reduces_in_one_shot(problem)) {
    plan.all_reduce = AllReduceAlgorithm::one_shot;
    plan.window = 0;
    plan.store_rows = 64;
  }
}

/// Chooses chunks of an all-gather. With one or two waves there are no local tiles to start with that would hide the
/// arrival. Rows then arrive along k, faster than they are consumed, in eight or sixteen chunks: with more of them
/// polls cost time, with fewer the first chunk is late. Nothing leaves for a peer from staging, but late rows need a
/// deep ring; with one wave staging lies over the ring and costs nothing. With several waves whole rows suffice.
void choose_gather(const Problem& problem, Plan& plan, const LocalShape& shape, int multiprocessors) {
  const std::int64_t tiles = row_tiles(shape) * ((shape.columns + plan.tile_columns - 1) / plan.tile_columns);
  if (tiles > std::int64_t{2} * multiprocessors) {
    return;
  }
  const std::int64_t chunks = (tiles <= multiprocessors ? 16 : 8) * std::int64_t{kernels::gemm_tile_depth};
  plan.chunk_depth =
      static_cast<int>(std::max<std::int64_t>((problem.k + chunks - 1) / chunks, 1)) * kernels::gemm_tile_depth;
  if (plan.tile_columns == 256 && !problem.gated && tiles > multiprocessors) {
    plan.staging_chunks = 1;
  }
}

Plan plan_for_drain(const Problem& problem, int world, int multiprocessors, double drain_gb_per_s) {
  check_problem(problem, world);
  Plan plan;
  plan.drain_gb_per_s = drain_gb_per_s;
  const LocalShape shape = local_shape(problem, world);
  choose_tiles(problem, plan, shape, multiprocessors);
  choose_reduction(problem, plan);
  if (problem.operation == Operation::all_gather && world > 1) {
    choose_gather(problem, plan, shape, multiprocessors);
  }
  return complete_plan(problem, plan, world, multiprocessors);
}

}  // namespace

Plan make_plan(const Problem& problem, int world, int multiprocessors) {
  return plan_for_drain(problem, world, multiprocessors, Plan{}.drain_gb_per_s);
}

Plan make_plan(const Problem& problem, int world, int multiprocessors, const Platform& platform) {
  const Estimate& drain = path_profile(platform, StorePath::bulk).drain_gb_per_s;
  if (!drain.value.has_value() || !(*drain.value > 0)) {
    throw InputError("the platform profile has no drain rate of bulk stores: calibrate with the bulk path");
  }
  return plan_for_drain(problem, world, multiprocessors, *drain.value);
}

namespace {

/// Copies are enqueued behind a gate that waits for the peers. The driver's queue is full after about a thousand of
/// them, and the host would then wait for the gate before it has launched the peers.
constexpr int most_copied_chunks = 16;

void complete_chunks(const Problem& problem, Plan& plan, int world) {
  const std::int64_t blocks = (problem.k + kernels::gemm_tile_depth - 1) / kernels::gemm_tile_depth;
  const int depth = static_cast<int>(blocks) * kernels::gemm_tile_depth;
  plan.chunk_depth = plan.chunk_depth == 0 ? depth : std::min(plan.chunk_depth, depth);
  const std::int64_t shard = row_range(problem.m, 0, world).count;
  const std::int64_t most_rows =
      (shard + kernels::gemm_tile_rows - 1) / kernels::gemm_tile_rows * kernels::gemm_tile_rows;
  plan.chunk_rows = static_cast<int>(std::min<std::int64_t>(plan.chunk_rows, most_rows));
  if (problem.operation != Operation::all_gather || plan.gather != GatherPath::copy_engine) {
    return;
  }
  const int depth_chunks = (depth + plan.chunk_depth - 1) / plan.chunk_depth;
  const std::int64_t row_chunks = std::max(1, most_copied_chunks / depth_chunks);
  const std::int64_t fewest_rows = (shard + row_chunks - 1) / row_chunks;
  const std::int64_t rounded = (fewest_rows + kernels::gemm_tile_rows - 1) / kernels::gemm_tile_rows;
  plan.chunk_rows = std::max(plan.chunk_rows, static_cast<int>(rounded) * kernels::gemm_tile_rows);
}

/// Staging may lie over the ring only if no CTA stages anything before its operands are multiplied, or loads partial
/// sums of peers before that.
bool may_stage_over_ring(const Problem& problem, const Plan& plan, int world, int most_tiles) {
  const bool waits_for_partials =
      problem.operation == Operation::reduce_scatter ||
      (problem.operation == Operation::all_reduce && plan.all_reduce == AllReduceAlgorithm::two_shot);
  return most_tiles * plan.cluster_rows * plan.cluster_columns <= plan.issuers && (world == 1 || !waits_for_partials);
}

/// Whether one load may bring two k-blocks. It may not if the next row would follow a last half block, or if rows of a
/// gathered operand may arrive one k-block after the other.
bool may_load_two_blocks(const Problem& problem, const Plan& plan, int world) {
  return plan.tile_columns == 64 && plan.cluster_rows == 1 && problem.operation != Operation::all_gather &&
         local_shape(problem, world).depth % (2 * std::int64_t{kernels::gemm_tile_depth}) == 0;
}

/// Number of stages that fit beside the rest of shared memory.
int stages_that_fit(const Problem& problem, Plan plan, int world) {
  plan.stages = 0;
  const SharedLayout without_ring = shared_layout(problem, plan, world);
  const std::int64_t staging_in_ring = plan.staging_over_ring == 1 ? without_ring.push_offset : 0;
  const std::int64_t left = shared_memory_limit - (without_ring.bytes - staging_in_ring);
  return static_cast<int>(std::clamp<std::int64_t>(left / without_ring.stage_bytes, 0, kernels::max_stages));
}

/// Completes the operand ring. Stages have two k-blocks only where that is possible, so that a user who widens the
/// tiles of a complete plan need not think of them. They also do not displace stages that the user asked for.
void complete_ring(const Problem& problem, Plan& plan, int world) {
  const bool possible = may_load_two_blocks(problem, plan, world);
  if (plan.stage_blocks == 0 && possible) {
    plan.stage_blocks = 2;
    plan.stage_blocks = plan.stages <= stages_that_fit(problem, plan, world) ? 2 : 1;
  } else if (!possible) {
    plan.stage_blocks = 1;
  }
  if (plan.stages == 0) {
    plan.stages = stages_that_fit(problem, plan, world);
    check_field(plan.stages >= 2, "stages", plan.stages, "beside staging and push there must be room for two");
  }
}

/// Largest number of cluster tiles of a rank.
int most_cluster_tiles(const Problem& problem, const Plan& plan, int world) {
  int most = 1;
  for (int rank = 0; rank < world; ++rank) {
    most = std::max(most, make_layout(problem, plan, rank, world).schedule.cluster_tiles());
  }
  return most;
}

/// Completes the number of CTAs and the use of their shared memory.
void complete_occupancy(const Problem& problem, Plan& plan, int world, int multiprocessors, int most_tiles) {
  const int cluster = plan.cluster_rows * plan.cluster_columns;
  if (plan.issuers == 0) {
    const int resident = std::min(multiprocessors, most_issuers) / cluster * cluster;
    plan.issuers = std::max(cluster, std::min(most_tiles * cluster, resident));
  }
  const bool possible = may_stage_over_ring(problem, plan, world, most_tiles);
  check_field(plan.staging_over_ring < 1 || possible, "staging_over_ring", plan.staging_over_ring,
              "it must be 0 or -1 where a CTA has several tiles or adds up partial sums of peers");
  if (plan.staging_over_ring < 0) {
    plan.staging_over_ring = possible ? 1 : 0;
  }
  complete_ring(problem, plan, world);
}

/// Lets a second warp push where rows would come late; with many waves they come early enough. That warp also stores
/// results later, so staging must hold them until the push is over: with less staging, 4096 x 4096 x 8192 on two ranks
/// took 219 us, 1.26 of the GEMM alone, although its push lasts a little less than a main loop.
void complete_push(const Problem& problem, Plan& plan, int world, int most_tiles) {
  if (plan.push_warps != 0) {
    return;
  }
  const bool few_waves = most_tiles * plan.cluster_rows * plan.cluster_columns <= 2 * plan.issuers;
  const int chunks = plan.tile_columns / kernels::chunk_columns / (problem.gated ? 2 : 1);
  const bool stages_whole_tile = plan.staging_chunks >= chunks;
  plan.push_warps = pushes(problem, plan, world) && few_waves && stages_whole_tile ? 2 : 1;
}

}  // namespace

Plan complete_plan(const Problem& problem, Plan plan, int world, int multiprocessors) {
  fields::check(plan_fields(), plan, "plan");
  if (plan.staging_chunks == 0) {
    // Staging of a whole tile: a warpgroup then never waits for a store while it has something to multiply.
    plan.staging_chunks = plan.tile_columns / kernels::chunk_columns;
  }
  check_tiling(problem, plan);
  complete_chunks(problem, plan, world);
  const int most_tiles = most_cluster_tiles(problem, plan, world);
  complete_occupancy(problem, plan, world, multiprocessors, most_tiles);
  check_issuers(plan, multiprocessors);
  fill_store_interval(problem, plan, world);
  complete_push(problem, plan, world, most_tiles);
  fill_push_interval(problem, plan, world);
  const std::int64_t bytes = shared_layout(problem, plan, world).bytes;
  if (bytes > shared_memory_limit) {
    throw InputError(fmt::format("plan: {} stages and {} staging chunks take {} bytes of shared memory: at most {}",
                                 plan.stages, plan.staging_chunks, bytes, shared_memory_limit));
  }
  return plan;
}

Plan with_own_staging(const Problem& problem, Plan plan, int world) {
  plan.staging_over_ring = 0;
  plan.stages = std::min(plan.stages, stages_that_fit(problem, plan, world));
  return plan;
}

}  // namespace xstage::gemm
