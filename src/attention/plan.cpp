#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "attention/problem.hpp"
#include "kernels/collective/call_parameters.hpp"
#include "xstage/error.hpp"

namespace xstage::attention {

namespace {

/// From here the keys and values of one head no longer fit L2 together with those of the others, and CTAs that fetch
/// them together save more than it costs them to keep step. Provisional.
constexpr std::int64_t keys_for_clusters = 32768;

/// Keys and values of the heads that are worked off together: half of an H200's L2. The rest is for queries, results,
/// and the heads that come next.
constexpr std::int64_t shared_cache_bytes = std::int64_t{24} << 20U;

constexpr int most_issuers = static_cast<int>(kernels::CallPad::most_blocks);

void check_field(bool holds, std::string_view name, int value, std::string_view rule) {
  if (!holds) {
    throw InputError(fmt::format("plan: {} is {}: {}", name, value, rule));
  }
}

/// Query heads of all sequences that a rank works on.
std::int64_t lines_of_rank(const Problem& problem, int world) { return problem.sequences * (problem.heads / world); }

/// One row tile has no neighbour, and an odd number of CTAs no pairs.
int choose_cluster(const Problem& problem, const Plan& plan) {
  const bool pairs = problem.rows > tile_rows && plan.issuers % 2 == 0;
  return !problem.causal && problem.keys >= keys_for_clusters && pairs ? 2 : 1;
}

/// Query heads that share keys and values stay together, even if these alone do not fit.
int choose_heads_together(const Problem& problem, int world) {
  const std::int64_t bytes_of_head = problem.keys * problem.head_dim * 2 * 2;  // keys and values, 2 bytes each
  const std::int64_t key_heads = std::max<std::int64_t>(1, shared_cache_bytes / bytes_of_head);
  const std::int64_t heads = key_heads * (problem.heads / problem.kv_heads);
  return static_cast<int>(std::min(heads, lines_of_rank(problem, world)));
}

/// What the schedule divides by, and how results leave.
void check_order(const Problem& problem, const Plan& plan, int world) {
  if (plan.store_path != StorePath::store16 && plan.store_path != StorePath::bulk) {
    throw InputError(fmt::format("plan: store_path is {}: it must be {} or {}", name_of(plan.store_path),
                                 name_of(StorePath::store16), name_of(StorePath::bulk)));
  }
  check_field(plan.cluster == 1 || plan.cluster == 2, "cluster", plan.cluster, "it must be 1 or 2, or 0 for the rule");
  check_field(plan.cluster == 1 || !problem.causal, "cluster", plan.cluster,
              "causal attention needs 1, since its CTAs draw their tiles one by one");
  const std::int64_t lines = lines_of_rank(problem, world);
  check_field(
      plan.heads_together >= 1 && plan.heads_together <= lines, "heads_together", plan.heads_together,
      fmt::format("it must be between 1 and the {} heads of all sequences on a rank, or 0 for the rule", lines));
}

/// One CTA a multiprocessor in whole clusters, and none that would find no tile.
int choose_issuers(const Problem& problem, const Plan& plan, int world, int multiprocessors) {
  const std::int64_t tiles = make_schedule(problem, plan, 0, world).cluster_tiles();  // of any rank
  const int resident = std::min(multiprocessors, most_issuers) / plan.cluster * plan.cluster;
  return static_cast<int>(std::min<std::int64_t>(resident, tiles * plan.cluster));
}

void check_issuers(const Plan& plan, int multiprocessors) {
  check_field(plan.issuers >= 1 && plan.issuers % plan.cluster == 0, "issuers", plan.issuers,
              fmt::format("it must be a positive multiple of the {} CTAs of a cluster", plan.cluster));
  check_field(plan.issuers <= most_issuers, "issuers", plan.issuers,
              fmt::format("it must be at most {}, as the signal pad has no more epochs", most_issuers));
  check_field(plan.issuers <= multiprocessors, "issuers", plan.issuers,
              fmt::format("there may be no more CTAs than the {} multiprocessors, or the last ones never start while "
                          "the others wait",
                          multiprocessors));
}

/// Cluster tile in which the rows of the next rank begin.
std::int32_t first_row_tile(const Problem& problem, const Plan& plan, int rank, int world) {
  if (problem.destination == Destination::local) {
    return 0;
  }
  const std::int64_t rows = std::int64_t{tile_rows} * plan.cluster;
  const std::int64_t last = (problem.rows - 1) / rows;  // a next rank without rows begins behind it
  return static_cast<std::int32_t>(std::min(last, row_range(problem.rows, (rank + 1) % world, world).begin / rows));
}

}  // namespace

Plan complete_plan(const Problem& problem, const Plan& plan, int world, int multiprocessors) {
  Plan complete = plan;
  if (complete.cluster == 0) {
    complete.cluster = choose_cluster(problem, complete);
  }
  if (complete.heads_together == 0) {
    complete.heads_together = choose_heads_together(problem, world);
  }
  check_order(problem, complete, world);
  if (complete.issuers == 0) {
    complete.issuers = choose_issuers(problem, complete, world, multiprocessors);
  }
  check_issuers(complete, multiprocessors);
  return complete;
}

Plan make_plan(const Problem& problem, int world, int multiprocessors) {
  check_problem(problem, world);
  Plan plan;
  plan.store_path = StorePath::bulk;
  return complete_plan(problem, plan, world, multiprocessors);
}

schedule::AttentionSchedule make_schedule(const Problem& problem, const Plan& plan, int rank, int world) {
  schedule::AttentionShape shape;
  shape.sequences = static_cast<std::int32_t>(problem.sequences);
  shape.rows = static_cast<std::int32_t>(problem.rows);
  shape.keys = static_cast<std::int32_t>(problem.keys);
  shape.heads = problem.heads / world;
  shape.group = problem.heads / problem.kv_heads;
  shape.causal = problem.causal ? 1 : 0;
  schedule::AttentionTiling tiling;
  tiling.tile_rows = tile_rows;
  tiling.block_keys = block_keys;
  tiling.cluster_size = plan.cluster;
  tiling.first_row_tile = first_row_tile(problem, plan, rank, world);
  tiling.heads_together = plan.heads_together;
  schedule::AttentionSchedule schedule;
  schedule.start(shape, tiling);
  return schedule;
}

}  // namespace xstage::attention
