// Prediction of the Burst-Gap model for an attention whose results go to their owners. Equations are named as in
// xstage/model.hpp; the platform's numbers are those of the plan's store path.
//
//   predicted = main loops of all waves + stalls + tail + launch
//
// A wave is one tile of every CTA, its main loop is the gap G, and V is what its tiles store to peers. A warpgroup
// stages a whole tile, which is stored while the warpgroup computes the next one. The warpgroup therefore waits only if
// the stores of its last tile have not left the staging one tile later:
//
//   stall before wave n's tiles are staged = max(0, (backlog after G - Q) / R), in a steady state max(0, V/R - G)
//   tail                                   = backlog after the last wave / R: nothing is left that could hide it
//
// The model assumes that all CTAs of a wave end it together. That holds for the first wave of a full attention. Later
// CTAs fall out of step, and causal tiles differ in length by design, so that a part of the tail is hidden: the
// prediction is an upper bound.
//
// Not modelled: the latency of flags between ranks (a microsecond or two, which only a single wave fails to hide), the
// exchange of the parts of split tiles, and congested receivers.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "ops/attention/problem.hpp"
#include "ops/attention/shares.hpp"
#include "xstage/error.hpp"
#include "xstage/model.hpp"

namespace xstage::attention {

namespace {

/// Time of the kernel outside its main loops: start of the grid, first operands, last stores. It was measured with the
/// GEMM kernel on H200, which starts and ends in the same way.
constexpr double launch_us = 4;

constexpr int element_bytes = 2;

/// Upper bound of the tiles that are evaluated for one rank. In longer schedules some waves are evaluated at equal
/// distances, and each stands for those up to the next one.
constexpr std::int64_t most_walked_tiles = std::int64_t{1} << 18U;

struct Wave {
  double blocks = 0;   // key blocks that a CTA computes in this wave
  int producers = 0;   // CTAs that store to a peer after this wave
  double bytes = 0;    // V of all these CTAs
  double repeats = 1;  // number of waves for which this one stands
};

/// Stores in flight, of all waves up to now.
struct StoresInFlight {
  double backlog_bytes = 0;  // accepted or staged, not yet drained
  double drain_bytes_per_us = 1;
  double capacity_bytes = 0;  // Q
};

/// Rows whose results stay on the rank.
RowRange rows_that_stay(const Problem& problem, int rank, int world) {
  return problem.destination == Destination::to_owners ? row_range(problem.rows, rank, world)
                                                       : RowRange{0, problem.rows};
}

/// Rows of the tile that exist and belong to peers.
std::int64_t remote_rows(const Problem& problem, const schedule::AttentionTile& tile, const RowRange& own) {
  const std::int64_t begin = std::max(tile.row, 0);
  const std::int64_t end = std::min<std::int64_t>(tile.row + tile_rows, problem.rows);
  const std::int64_t staying = std::min(end, own.begin + own.count) - std::max(begin, own.begin);
  return end - begin - std::max<std::int64_t>(staying, 0);
}

/// Tiles [first, end) in the order in which CTAs take them.
Wave walk(const Problem& problem, const schedule::AttentionSchedule& schedule, const RowRange& own, std::int64_t first,
          std::int64_t end) {
  Wave wave;
  for (std::int64_t index = first; index < end; ++index) {
    const schedule::AttentionTile tile = schedule.tile(static_cast<std::int32_t>(index));
    const std::int64_t rows = remote_rows(problem, tile, own);
    wave.producers += rows > 0 ? 1 : 0;
    wave.bytes += static_cast<double>(rows * problem.head_dim * element_bytes);
    wave.blocks += tile.block_end - tile.block_begin;
  }
  return wave;
}

/// Largest share of one CTA in the split tiles.
double longest_share(const schedule::AttentionSchedule& schedule, int ctas) {
  const std::vector<schedule::AttentionShare> shares = schedule::split_left_over(schedule, ctas);
  std::int64_t longest = 0;
  for (std::size_t first = 0; first < shares.size(); first += schedule::shares_each) {
    std::int64_t blocks = 0;
    for (std::size_t share = first; share < first + schedule::shares_each; ++share) {
      blocks += shares[share].tile.block_end - shares[share].tile.block_begin;
    }
    longest = std::max(longest, blocks);
  }
  return static_cast<double>(longest);
}

/// Full tiles are equally long, except for shares of split ones. A CTA that is ready draws the next causal tile, so
/// that all CTAs are busy to the end: a wave lasts as long as its tiles do on average, and all waves together last at
/// least as long as the longest tile.
void set_lengths(const schedule::AttentionSchedule& schedule, const Plan& plan, std::vector<Wave>& waves) {
  const double blocks_of_tile = schedule.key_blocks();
  if (schedule.shape().causal == 0) {
    for (Wave& wave : waves) {
      wave.blocks = blocks_of_tile;
    }
    if (plan.split == 1 && schedule.tiles() % plan.issuers != 0) {
      waves.back().blocks = longest_share(schedule, plan.issuers);
    }
    return;
  }
  double blocks = 0;
  for (Wave& wave : waves) {
    wave.blocks /= plan.issuers;
    blocks += wave.repeats * wave.blocks;
  }
  waves.front().blocks += std::max(0.0, blocks_of_tile - blocks) / waves.front().repeats;
}

std::vector<Wave> waves_of(const Problem& problem, const schedule::AttentionSchedule& schedule, const Plan& plan,
                           const RowRange& own) {
  const std::int64_t tiles = schedule.tiles();
  const std::int64_t count = (tiles + plan.issuers - 1) / plan.issuers;
  const std::int64_t walked = std::max<std::int64_t>(2, most_walked_tiles / plan.issuers);
  const std::int64_t last = count - 1;
  const std::int64_t step = std::max<std::int64_t>(1, (last + walked - 2) / (walked - 1));
  std::vector<Wave> waves;
  const auto add = [&](std::int64_t number, std::int64_t repeats) {
    const std::int64_t first = number * plan.issuers;
    waves.push_back(walk(problem, schedule, own, first, std::min(first + plan.issuers, tiles)));
    waves.back().repeats = static_cast<double>(repeats);
  };
  for (std::int64_t number = 0; number < last; number += step) {
    add(number, std::min(step, last - number));
  }
  add(last, 1);
  set_lengths(schedule, plan, waves);
  return waves;
}

/// The platform's numbers for a wave that stores to peers. T_iss0 is 0, since the store warp issues and not the
/// warpgroup. Where Q is unknown it is taken as 0: no byte counts as accepted before it has drained.
model::OperatingPoint point_of(const Wave& wave, const Plan& plan, const Platform& platform) {
  constexpr double granule = 16;  // the width that both store paths divide
  const double bytes_each = std::ceil(wave.bytes / wave.producers / granule) * granule;
  OperatingPointOrReason found = operating_point(platform, plan.store_path, wave.producers, bytes_each);
  if (!found.usable) {
    throw InputError(fmt::format("platform {}: cannot audit {} CTAs that store {:.0f} bytes each: {}",
                                 platform.node.name, wave.producers, bytes_each, fmt::join(found.reasons, "; ")));
  }
  found.point.volume_bytes = wave.bytes;  // clipped tiles have fewer bytes
  found.point.issue_floor_us = 0;
  if (!found.capacity_known) {
    found.point.capacity_bytes = 0;
  }
  return found.point;
}

/// One step of aligned::next_burst, in which earlier stores determine how long the tiles of this wave wait for their
/// staging. Staged bytes count as accepted. Returns the stall.
double pass(StoresInFlight& stores, const model::OperatingPoint& burst, double gap_us) {
  model::OperatingPoint before;
  before.volume_bytes = burst.volume_bytes;
  before.drain_bytes_per_us = stores.drain_bytes_per_us;
  before.capacity_bytes = stores.capacity_bytes + burst.volume_bytes;
  const model::aligned::BurstOutcome outcome = model::aligned::next_burst(before, gap_us, stores.backlog_bytes);
  stores.backlog_bytes = outcome.backlog_at_end_bytes;
  if (burst.volume_bytes > 0) {
    const bool both = outcome.backlog_at_start_bytes > 0;
    stores.drain_bytes_per_us =
        both ? std::max(stores.drain_bytes_per_us, burst.drain_bytes_per_us) : burst.drain_bytes_per_us;
    stores.capacity_bytes = both ? std::max(stores.capacity_bytes, burst.capacity_bytes) : burst.capacity_bytes;
  }
  return outcome.issue_us;
}

/// Records the boundary with most bytes to peers, as if all boundaries were like it. A whole tile is staged, so that
/// the capacity is at least V: free-running and aligned CTAs stall equally, and Q has no influence.
void note_boundary(PlanAudit& audit, const model::OperatingPoint& burst) {
  model::OperatingPoint staged = burst;
  staged.capacity_bytes += burst.volume_bytes;
  audit.remote_bytes = burst.volume_bytes;
  audit.drain_us = model::drain_time_us(burst);
  audit.stall_us = model::free_running::issue_us(staged, audit.main_loop_us);
  audit.aligned_stall_us = model::aligned::issue_us(staged, audit.main_loop_us);
}

/// R for any number of CTAs. The profile has it, since point_of would have thrown.
double drain_rate(const Plan& plan, const Platform& platform) {
  return *path_profile(platform, plan.store_path).drain_gb_per_s.value * 1e3;
}

void audit_waves(PlanAudit& audit, const std::vector<Wave>& waves, double block_us, const Plan& plan,
                 const Platform& platform) {
  StoresInFlight stores;
  double busy_us = 0;  // multiplying or stalled
  for (const Wave& wave : waves) {
    const double gap_us = wave.blocks * block_us;
    const model::OperatingPoint burst = wave.bytes > 0 ? point_of(wave, plan, platform) : model::OperatingPoint{};
    busy_us += wave.repeats * (gap_us + pass(stores, burst, gap_us));
    if (wave.bytes > audit.remote_bytes) {
      note_boundary(audit, burst);
    }
    audit.all_remote_bytes += wave.repeats * wave.bytes;
  }
  audit.tail_us = stores.backlog_bytes / stores.drain_bytes_per_us;
  audit.predicted_us = busy_us + audit.tail_us + audit.launch_us;
  if (audit.all_remote_bytes > 0) {
    audit.all_drain_us = audit.all_remote_bytes / drain_rate(plan, platform);
  }
}

/// Mean number of key blocks of a tile. All heads have the same tiles; the first tiles of a causal schedule are the
/// same row tile of each head.
double mean_blocks(const schedule::AttentionSchedule& schedule) {
  if (schedule.shape().causal == 0) {
    return schedule.key_blocks();
  }
  const std::int32_t lines = schedule.shape().heads * schedule.shape().sequences;
  std::int64_t blocks = 0;
  for (std::int32_t index = 0; index < schedule.tiles(); index += lines) {
    blocks += schedule.tile(index).block_end;
  }
  return static_cast<double>(blocks) * lines / schedule.tiles();
}

PlanAudit audit_rank(const Problem& problem, const Plan& plan, int rank, int world, const Platform& platform,
                     double block_us) {
  const schedule::AttentionSchedule schedule = make_schedule(problem, rank, world);
  PlanAudit audit;
  audit.waves = (schedule.tiles() - 1) / plan.issuers + 1;
  audit.main_loop_us = mean_blocks(schedule) * block_us;
  audit.launch_us = launch_us;
  audit_waves(audit, waves_of(problem, schedule, plan, rows_that_stay(problem, rank, world)), block_us, plan, platform);
  return audit;
}

}  // namespace

PlanAudit audit_plan(const Problem& problem, const Plan& given_plan, int world, int multiprocessors,
                     const Platform& platform, double tensor_tflops) {
  check_problem(problem, world);
  if (!(std::isfinite(tensor_tflops) && tensor_tflops > 0)) {
    throw InputError(fmt::format("tensor_tflops is {}: it must be finite and above zero", tensor_tflops));
  }
  const Plan plan = complete_plan(problem, given_plan, world, multiprocessors);
  // Rows beyond the end of a tile and keys beyond the end of the last block are multiplied, too.
  const double operations = 2.0 * 2 * tile_rows * block_keys * problem.head_dim;
  const double block_us = operations / (tensor_tflops * 1e6 / multiprocessors);
  PlanAudit slowest = audit_rank(problem, plan, 0, world, platform, block_us);
  const int audited_ranks = problem.destination == Destination::to_owners ? world : 1;
  for (int rank = 1; rank < audited_ranks; ++rank) {
    const PlanAudit audit = audit_rank(problem, plan, rank, world, platform, block_us);
    if (audit.predicted_us > slowest.predicted_us) {
      slowest = audit;
    }
  }
  return slowest;
}

}  // namespace xstage::attention
