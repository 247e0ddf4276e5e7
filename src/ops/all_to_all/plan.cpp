#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "ops/all_to_all/problem.hpp"
#include "xstage/error.hpp"

namespace xstage::all_to_all {

namespace {

constexpr int stage_alignment = 128;  // of a tensor store's source
constexpr int greatest_box = 256;     // extent of a tensor store in each direction

/// Shorter rows are stored as boxes: one instruction for each of them would cost more than its bytes. Provisional.
constexpr int shortest_single_row = 1024;
constexpr int usual_chunk_bytes = 12 * 1024;
constexpr int least_chunk_bytes = 3 * 1024;
constexpr int usual_stages = 6;

/// CTAs that copy this rank's own rows while the others keep the fabric busy. The volume of the own rows is 1 / (R - 1)
/// of that for peers, which drains at 373 GB/s, and one CTA with its ring copies at least 14 GB/s. Provisional.
constexpr int own_issuers_of_two_ranks = 27;

int divide_up(int value, int by) { return (value + by - 1) / by; }

int head_bytes(const Problem& problem) { return problem.head_dim * element_bytes; }

std::int64_t row_bytes(const Problem& problem, int world) {
  return std::int64_t{problem.heads / world} * head_bytes(problem);
}

struct ChunkShape {
  int rows;
  int heads;
};

ChunkShape chunk_shape(const Problem& problem, const Plan& plan, int world) {
  const std::int64_t whole_row = row_bytes(problem, world);
  if (whole_row > plan.chunk_bytes) {
    return {1, std::min(greatest_box, plan.chunk_bytes / head_bytes(problem))};
  }
  return {std::min(greatest_box, static_cast<int>(plan.chunk_bytes / whole_row)), problem.heads / world};
}

void check_field(bool holds, std::string_view name, std::int64_t value, std::string_view rule) {
  if (!holds) {
    throw InputError(fmt::format("plan: {} is {}: {}", name, value, rule));
  }
}

/// Chunks of the rank that has most of them. Other differences between ranks concern only the order.
std::int64_t count_chunks(const Problem& problem, const Plan& plan, int world) {
  return make_schedule(problem, plan, 0, world).chunks();
}

/// Chooses smaller chunks for small volumes, so that all CTAs have several.
int choose_chunk_bytes(const Problem& problem, const Plan& plan, int world, int multiprocessors) {
  Plan tried = plan;
  tried.chunk_bytes = std::max(usual_chunk_bytes, head_bytes(problem));
  while (tried.chunk_bytes / 2 >= std::max(least_chunk_bytes, head_bytes(problem)) &&
         count_chunks(problem, tried, world) < 2 * multiprocessors) {
    tried.chunk_bytes /= 2;
  }
  return tried.chunk_bytes;
}

void check_ring(const Problem& problem, const Plan& plan, int world) {
  const int bytes = plan.stages * stage_bytes(problem, plan, world);
  check_field(bytes <= most_shared_bytes, "stages * chunk_bytes", bytes,
              fmt::format("it must be at most the {} bytes of shared memory", most_shared_bytes));
}

bool fits_box(const Problem& problem, const ChunkShape& chunk) {
  return problem.head_dim <= greatest_box && chunk.heads <= greatest_box;
}

Transfer choose_transfer(const Problem& problem, const Plan& plan, int world) {
  const ChunkShape chunk = chunk_shape(problem, plan, world);
  const bool is_short = chunk.heads * head_bytes(problem) < shortest_single_row;
  return is_short && fits_box(problem, chunk) ? Transfer::boxes : Transfer::rows;
}

int choose_peer_issuers(int issuers, int world) {
  if (world == 1) {
    return 0;
  }
  const int own = std::min(divide_up(own_issuers_of_two_ranks, world - 1), divide_up(issuers, world));
  return std::max(1, issuers - own);
}

void check_issuers(const Plan& plan, int world, int multiprocessors) {
  check_field(plan.issuers <= multiprocessors, "issuers", plan.issuers,
              fmt::format("there may be no more CTAs than the {} multiprocessors", multiprocessors));
  if (world == 1) {
    check_field(plan.peer_issuers == 0, "peer_issuers", plan.peer_issuers, "one rank has no peers: it must be 0");
  } else {
    check_field(plan.peer_issuers <= plan.issuers, "peer_issuers", plan.peer_issuers,
                fmt::format("it must be at most the {} CTAs, or 0 for the rule", plan.issuers));
  }
}

}  // namespace

Plan complete_plan(const Problem& problem, const Plan& plan, int world, int multiprocessors) {
  fields::check(plan_fields(), plan, "plan");
  Plan complete = plan;
  if (complete.chunk_bytes == 0) {
    complete.chunk_bytes = choose_chunk_bytes(problem, complete, world, multiprocessors);
  }
  check_field(complete.chunk_bytes >= head_bytes(problem), "chunk_bytes", complete.chunk_bytes,
              fmt::format("it must be at least the {} bytes of a head, or 0 for the rule", head_bytes(problem)));
  if (complete.stages == 0) {
    complete.stages = usual_stages;
  }
  check_ring(problem, complete, world);
  if (complete.transfer == Transfer::by_rule) {
    complete.transfer = choose_transfer(problem, complete, world);
  }
  check_field(complete.transfer != Transfer::boxes || fits_box(problem, chunk_shape(problem, complete, world)),
              "transfer", static_cast<int>(complete.transfer),
              "boxes have at most 256 heads of at most 256 elements: it must be rows, or by_rule");
  if (complete.issuers == 0) {
    const std::int64_t chunks = count_chunks(problem, complete, world);
    complete.issuers = static_cast<int>(std::min<std::int64_t>(std::min(multiprocessors, most_issuers), chunks));
  }
  if (complete.peer_issuers == 0) {
    complete.peer_issuers = choose_peer_issuers(complete.issuers, world);
  }
  check_issuers(complete, world, multiprocessors);
  return complete;
}

Plan make_plan(const Problem& problem, int world, int multiprocessors) {
  check_problem(problem, world);
  return complete_plan(problem, {}, world, multiprocessors);
}

Plan with_issuers(const Plan& plan, int issuers) {
  Plan smaller = plan;
  smaller.issuers = issuers;
  if (plan.peer_issuers == plan.issuers || plan.peer_issuers == 0) {
    smaller.peer_issuers = std::min(plan.peer_issuers, issuers);
  } else {
    const int own = std::max(1, (plan.issuers - plan.peer_issuers) * issuers / plan.issuers);
    smaller.peer_issuers = std::max(1, issuers - own);
  }
  return smaller;
}

schedule::AllToAllSchedule make_schedule(const Problem& problem, const Plan& plan, int rank, int world) {
  schedule::AllToAllShape shape;
  shape.sequences = static_cast<std::int32_t>(problem.sequences);
  shape.rows = static_cast<std::int32_t>(problem.rows);
  shape.heads = problem.heads / world;
  shape.head_bytes = head_bytes(problem);
  shape.rank = rank;
  shape.world = world;
  const ChunkShape chunk = chunk_shape(problem, plan, world);
  schedule::AllToAllTiling tiling;
  tiling.chunk_rows = chunk.rows;
  tiling.chunk_heads = chunk.heads;
  tiling.blocks = plan.issuers;
  tiling.peer_blocks = plan.peer_issuers;
  schedule::AllToAllSchedule schedule;
  schedule.start(shape, tiling);
  return schedule;
}

int stage_bytes(const Problem& problem, const Plan& plan, int world) {
  const ChunkShape chunk = chunk_shape(problem, plan, world);
  return divide_up(chunk.rows * chunk.heads * head_bytes(problem), stage_alignment) * stage_alignment;
}

}  // namespace xstage::all_to_all
