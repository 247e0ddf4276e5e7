#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "ops/attention/problem.hpp"
#include "xstage/error.hpp"

namespace xstage::attention {

namespace {

void check_field(bool holds, std::string_view name, int value, std::string_view rule) {
  if (!holds) {
    throw InputError(fmt::format("plan: {} is {}: {}", name, value, rule));
  }
}

/// Key blocks that a split must save at least, since parts are written, counted and read again (about 10 us).
constexpr double blocks_for_a_split = 4;

/// Whether the split pays: all CTAs together compute the tiles left over in a fraction of the time of one tile.
bool split_pays(const Problem& problem, int issuers, int world) {
  const schedule::AttentionSchedule schedule = make_schedule(problem, 0, world);
  const int left = schedule.tiles() % issuers;
  const double blocks = schedule.key_blocks();
  return left > 0 && blocks - blocks * left / issuers > blocks_for_a_split;
}

/// The interval is chosen as for GEMMs: at the full drain rate the X-Stage stays full and loads wait behind it, while
/// at three quarters of it loads are not delayed. All store warps of all CTAs share the rate.
int choose_store_interval(const Plan& plan) {
  constexpr double share_of_drain = 0.75;
  constexpr double bytes = 4096;
  constexpr int warps = 3;
  return static_cast<int>(std::lround(warps * plan.issuers * bytes / (share_of_drain * plan.drain_gb_per_s)));
}

void check_choices(const Problem& problem, const Plan& plan) {
  fields::check(plan_fields(), plan, "plan");
  check_field(plan.split != 1 || !problem.causal, "split", plan.split,
              "causal attention needs 0, since its CTAs draw their tiles one by one");
}

/// One CTA for each multiprocessor, and, unless tiles are split, no CTA without a tile.
int choose_issuers(const Problem& problem, int split, int world, int multiprocessors) {
  const std::int64_t tiles = make_schedule(problem, 0, world).tiles();  // of any rank
  const int resident = std::min(multiprocessors, most_issuers);
  return split == 1 ? resident : static_cast<int>(std::min<std::int64_t>(resident, tiles));
}

void check_issuers(const Plan& plan, int multiprocessors) {
  check_field(plan.issuers <= multiprocessors, "issuers", plan.issuers,
              fmt::format("there may be no more CTAs than the {} multiprocessors, or the last ones never start while "
                          "the others wait",
                          multiprocessors));
}

/// Rank r's tiles begin with the rows of rank r + 1, if it has any. A tile counts as this rank's own only if no row of
/// it belongs to another rank.
void put_own_rows_last(const Problem& problem, int rank, int world, schedule::AttentionTiling& tiling) {
  const std::int64_t row_tiles = (problem.rows + tile_rows - 1) / tile_rows;
  const RowRange own = row_range(problem.rows, rank, world);
  const std::int64_t next = row_range(problem.rows, (rank + 1) % world, world).begin;
  const bool to_the_end = own.begin + own.count == problem.rows;
  const std::int64_t own_end = to_the_end ? row_tiles : (own.begin + own.count) / tile_rows;
  const std::int64_t own_begin = (own.begin + tile_rows - 1) / tile_rows;
  const std::int64_t own_tiles = own.count > 0 ? std::max<std::int64_t>(own_end - own_begin, 0) : 0;
  tiling.own_row_tiles = static_cast<std::int32_t>(own_tiles);
  tiling.first_row_tile = static_cast<std::int32_t>(std::min(next / tile_rows, row_tiles - 1));
}

}  // namespace

Plan complete_plan(const Problem& problem, const Plan& plan, int world, int multiprocessors) {
  Plan complete = plan;
  check_choices(problem, complete);
  if (complete.split == -1) {
    const int issuers = complete.issuers > 0 ? complete.issuers : std::min(multiprocessors, most_issuers);
    complete.split = !problem.causal && split_pays(problem, issuers, world) ? 1 : 0;
  }
  if (complete.issuers == 0) {
    complete.issuers = choose_issuers(problem, complete.split, world, multiprocessors);
  }
  check_issuers(complete, multiprocessors);
  if (complete.store_interval_ns == -1) {
    complete.store_interval_ns = choose_store_interval(complete);
  }
  return complete;
}

Plan make_plan(const Problem& problem, int world, int multiprocessors) {
  check_problem(problem, world);
  Plan plan;
  plan.store_path = StorePath::bulk;
  return complete_plan(problem, plan, world, multiprocessors);
}

schedule::AttentionSchedule make_schedule(const Problem& problem, int rank, int world) {
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
  tiling.first_row_tile = 0;
  tiling.own_row_tiles = 0;
  tiling.step_rows = slab_rows;
  if (problem.destination != Destination::local && world > 1) {
    put_own_rows_last(problem, rank, world, tiling);
  }
  schedule::AttentionSchedule schedule;
  schedule.start(shape, tiling);
  return schedule;
}

}  // namespace xstage::attention
