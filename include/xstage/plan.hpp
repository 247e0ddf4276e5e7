#pragma once
// A plan holds the numbers that a fused kernel is launched with. The kernel makes no choice of its own and does not
// know the model (design rule 1). A user who has better numbers than the rule changes fields of the plan.

#include <cstdint>

#include "xstage/node.hpp"
#include "xstage/platform.hpp"

namespace xstage {

/// How the shards of peers arrive in an all-gather.
enum class GatherPath {
  push,         // the GEMM kernel stores its own shard to the peers, one helper warp in each CTA
  copy_engine,  // cudaMemcpyAsync on a second stream: no multiprocessor, but a few microseconds until it starts
};

/// How partial sums become the same full sum on every rank.
enum class AllReduceAlgorithm {
  one_shot,  // every rank sends its partial sums to all others, and each adds them up: one latency
  two_shot,  // each tile has an owner, who adds up and sends the sum to all: 2/R of the volume, two latencies
};

/// Lower bound of a plan's drain rate. Intervals between stores are computed from it, and for a lower rate their
/// nanoseconds would overflow their field.
inline constexpr double least_drain_gb_per_s = 0.1;

struct Plan {
  // Stores. The X-Stage holds `outstanding_capacity` (Q) bytes of them. The part of a tile that fits neither there nor
  // into the staging below stalls the warpgroups that multiply.
  StorePath store_path = StorePath::bulk;
  double drain_gb_per_s = 373.4;  // R of bulk stores that the intervals are computed from; default: two H200, NVLink
  int store_rows = 32;            // a group of remote stores: rows x 64 columns, 128 bytes a row; 16, 32 or 64
  int window = 1;              // groups that each of a CTA's two store warps may have in flight: 1, 2 or 4; 0: no limit
  int store_interval_ns = -1;  // least time between two groups of a store warp; -1: from the drain rate, see make_plan
  int push_interval_ns = -1;   // the same between two 8-KiB pieces that one warp pushes in an all-gather
  int staging_chunks = 0;  // of 8 KiB (64 rows x 64 columns) for each multiplying warpgroup, 1 to 4; 0: a whole tile
  // 1: results are staged in the memory of the operand ring, so that the ring has all of shared memory. That is
  // possible only where no CTA has a second tile, and none waits for partial sums before its own are ready. 0: staging
  // has its own memory. -1: results are staged over the ring where it is possible.
  int staging_over_ring = -1;

  // Tiles.
  int tile_columns = 256;  // 64, 128 or 256; a tile has 128 rows
  // CTAs of one cluster that share B (cluster_rows) or A (cluster_columns); their product is 1 or 2. Clusters of 4 do
  // not fill the GPU: the processing clusters (GPCs) of an H200 have different numbers of multiprocessors, and the last
  // clusters ran as a second wave.
  int cluster_rows = 2;
  int cluster_columns = 1;
  // k-blocks of 64 in a stage of the operand ring, 1 or 2. Two are possible only for tiles of 64 columns that do not
  // share B, where each rank's k is a multiple of 128, and not in an all-gather; elsewhere the kernel uses 1 whatever
  // this field says. 0: 2 where it is possible and leaves room for `stages`.
  int stage_blocks = 0;
  int stages = 0;   // stages of the ring; 0: as many as shared memory holds
  int issuers = 0;  // CTAs; 0: one for each multiprocessor

  // Order.
  int group_rows = 8;  // row clusters that are computed together, for reuse in L2

  // All-gather: one flag for each chunk of chunk_rows x chunk_depth elements.
  GatherPath gather = GatherPath::push;
  // Warps of each CTA that push: 1 or 2. The second one also stores results later. 0: 2 if there are at most two waves
  // and a whole tile is staged or the push is shorter than a main loop, else 1.
  int push_warps = 0;
  int chunk_rows = 128;  // multiple of 128
  int chunk_depth = 0;   // multiple of 64; 0: the whole depth

  AllReduceAlgorithm all_reduce = AllReduceAlgorithm::two_shot;
};

/// A plan's demand on the fabric, and the model's prediction. A wave is one tile of every CTA; a boundary lies between
/// two waves of main loops. src/ops/gemm/audit.cpp has the equations.
struct PlanAudit {
  int waves = 0;            // largest number of tiles of one CTA
  double main_loop_us = 0;  // gap G between two tiles of one CTA
  double remote_bytes = 0;  // V: bytes that all CTAs store to peers at one boundary; the maximum over boundaries
  double drain_us = 0;      // V over the drain rate, or over the rate that the plan's pacing permits if that is less
  double stall_us = 0;      // time for which these stores stall the multiplying warpgroups; free-running CTAs
  double aligned_stall_us = 0;  // the same if all CTAs reach the boundary together; NaN where Q is not known
  double all_remote_bytes = 0;  // bytes that one rank stores to its peers in the whole operation
  double all_drain_us = 0;      // all_remote_bytes over R: no schedule communicates faster
  double tail_us = 0;           // time after the last main loop, until its stores have drained
  double launch_us = 0;         // start and end of the kernel
  double predicted_us = 0;      // of the whole operation
};

}  // namespace xstage
