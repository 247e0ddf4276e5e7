#pragma once
// Parameters of a launch of the GEMM kernel, numbers and addresses only. How the memory was mapped, which operation
// this is and why the plan looks as it does is known to the host (design rules 1 and 2).

#include <cuda.h>

#include <cstdint>

#include "fabric/call_parameters.hpp"
#include "fabric/span_record.hpp"
#include "ops/gemm/device/layout.hpp"
#include "ops/gemm/schedule.hpp"
#include "xstage/peer_view.hpp"

namespace xstage::kernels {

/// The steps between accumulators and stores.
struct GemmEpilogue {
  const void* bias;  // bf16 [columns of B], or null
  GemmActivation activation;
  std::int32_t gated;        // 1: columns alternate 8 of the gate, 8 of the up projection; half as many leave
  const float* norm_weight;  // [parts with norm, head_dim], or null: RMS norm of each head
  const float* rotary;       // [positions, head_dim / 2, 2] cosine and sine, or null
  float norm_epsilon;
  std::int32_t head_dim;        // of norm and rotary: 64 or 128
  std::int32_t position_begin;  // rotary position of the first row
  std::int32_t positions;       // entries of the rotary table
};

/// Tensor maps of buffers in the symmetric heap. They never change, so they stay in device memory: as parameters they
/// made every launch a microsecond slower.
struct HeapMaps {
  CUtensorMap gathered[2];                  // [rows, k]: the gathered operand of even and of odd calls
  CUtensorMap slots;                        // [(source, row), columns]: partial tiles that peers stored here
  CUtensorMap output[max_output_maps];      // [rows, columns] of each destination
  CUtensorMap gather_output[2][max_world];  // [rows, k]: the own shard in every peer's gathered operand, even and odd
};

/// All parameters of one rank, the kernel's only parameter. Tensor maps come first, because they have the strictest
/// alignment.
struct GemmLaunch {
  CUtensorMap a;                  // [rows, k] the local operand
  CUtensorMap b;                  // [columns, k]
  CUtensorMap push_input;         // [rows, k] this rank's shard, in boxes of a pushed piece
  CUtensorMap output[max_world];  // [rows, columns] of each region in the caller's own matrix
  const HeapMaps* heap;
  std::int32_t depth_blocks;  // k-blocks of a tile
  std::int32_t stages;
  std::int32_t staging;     // chunks of 64 x 64 bf16 that each warpgroup may have in flight
  std::int32_t window;      // groups of remote stores that each store warp may have in flight: 1, 2, 4; 0: no limit
  std::int32_t store_rows;  // rows x 64 columns of one such group: 16, 32 or 64
  std::uint32_t store_interval_ns;  // least time from one group to the next, 0: none
  std::uint32_t push_interval_ns;   // the same between two pieces that a CTA pushes
  std::int32_t plain;               // 1: nothing happens between sum and store in any region
  std::int32_t stage_bytes;         // of the operand ring
  std::int32_t stage_blocks;        // k-blocks of a stage: 1 or 2
  std::int32_t tile_stages;         // stages of a tile
  std::int32_t a_half_bytes;        // from the first 64 rows of A to the others in a stage
  std::int32_t a_block_bytes;       // from one k-block of A to the next
  std::int32_t b_offset;            // of B in a stage, behind A
  std::int32_t load_bytes;          // bytes that the loads of a stage bring: fewer than it holds if A has few rows
  std::int32_t warpgroups;          // multiplying warpgroups: 1 if no tile has more than 64 rows
  std::int32_t staging_over_ring;   // 1: no CTA has a second tile; its results are staged where operands were
  std::int32_t multicast_a;         // cluster shares A (else B)
  std::int32_t cluster_size;
  std::int32_t staging_offset;   // in shared memory, behind the operand ring: see context.cuh
  std::int32_t push_offset;      // pieces of a pushed shard
  std::int32_t barriers_offset;  // and behind them what roles share
  std::int32_t heap_outputs;     // maps in HeapMaps::output
  std::int32_t slot_rows;        // rows from one source's slot to the next
  std::int32_t own_rows;
  std::int32_t waits_done;    // 1: results arrive here from peers; the call ends when all have
  std::int32_t leaves_early;  // 1: the call ends without waiting for them (Completion::sent)
  std::int32_t waits_sent;    // 1: the call ends when the copy engine's transfers have been performed

  schedule::GemmSchedule schedule;
  GemmRegionTarget target[schedule::max_regions];
  GemmEpilogue epilogue;
  GatherParameters gather;

  CallParameters call;
  char* exchange[max_world];         // slots of the exchange through registers, see exchange.cuh
  std::int32_t exchange_half_tiles;  // of one source
  ProbeParameters probe;
};

// Drivers and GPUs that the kernels run on take larger parameters, but each launch then becomes slower.
static_assert(sizeof(GemmLaunch) <= 4096);

}  // namespace xstage::kernels
