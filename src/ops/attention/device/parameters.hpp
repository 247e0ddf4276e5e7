#pragma once
// Parameters of one launch of the attention kernel. Plain data, copied into the launch.

#include <cuda.h>

#include <cstdint>

#include "fabric/call_parameters.hpp"
#include "fabric/span_record.hpp"
#include "ops/attention/schedule.hpp"
#include "ops/attention/shares.hpp"
#include "xstage/peer_view.hpp"

namespace xstage::kernels {

/// Owners of the rows of the result, and the addresses of these rows. Plain attention has one destination, which owns
/// all.
struct AttentionDestinations {
  std::int32_t count;
  std::int32_t row_begin[max_world + 1];  // rows [row_begin[d], row_begin[d + 1]) of each sequence belong to d
  std::int32_t heads;                     // heads of the result
  std::int32_t first_head;                // first head of this rank in the result
  char* base[max_world];                  // [sequences, own rows, heads, head_dim]
  std::int32_t own;                       // destination that is this rank; stores to it need not be spread over time
  std::uint32_t store_interval_ns;        // least time between two stores of a warp to other destinations
  std::int32_t direct;                    // 1: stores of 16 bytes a lane, 0: bulk stores through the maps
  std::int32_t slabs;                     // arrival counters of a sequence, one for 64 rows; 0: no counters
};

/// Arrival flags of a projection that stores the operands, see xstage/tile_arrivals.hpp. next_call null: the operands
/// are complete.
struct AttentionInputs {
  const std::uint32_t* next_call;
  const std::uint32_t* flags[3];  // of query, key, value
  std::int32_t column_tiles[3];
  std::int32_t source_flags;
  std::int32_t source_rows;
  std::int32_t tile_columns;
};

/// Device memory of tiles that several CTAs share.
struct AttentionSplit {
  const schedule::AttentionShare* shares;  // [CTAs, shares_each]; null: none
  float* found;             // [slots, warpgroups, values of a thread, 128 threads]: the results of each part
  std::uint32_t* counters;  // [split tiles, warpgroups], zero between launches: parts that are finished
};

struct AttentionLaunch {
  CUtensorMap query;              // [sequences, heads, halves, rows, 64], boxes of a warpgroup's rows
  CUtensorMap key;                // the same of keys, boxes of a block
  CUtensorMap value;              //
  CUtensorMap output[max_world];  // the same of results, boxes of a slab, or for peers of some rows of a half
  schedule::AttentionSchedule schedule;
  std::int32_t whole_tiles;     // tiles before this one are each computed by one CTA
  std::int32_t first_own_work;  // from this tile on, shares included, all rows are this rank's own
  AttentionSplit split;
  AttentionDestinations destinations;
  AttentionInputs inputs;
  CallParameters call;        // world 1 unless results go to peers
  std::int32_t leaves_early;  // 1: the kernel does not wait for what peers store here
  float* log_sum_exp;         // [sequences, heads, rows], null: not wanted
  float scale_log2;           // factor of the scores, times log2(e): exponentials are powers of two
  std::uint32_t*
      tickets;  // [2], zero between launches: tiles drawn, CTAs that drew their last; null: dealt out in turn
  ProbeParameters probe;
};

}  // namespace xstage::kernels
