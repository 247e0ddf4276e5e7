#pragma once
// Constants and plain data of a GEMM launch that the host's layout code and the kernel share. Includes no CUDA.

#include <cstdint>

#include "tile/tile_shape.hpp"

namespace xstage::kernels {

inline constexpr int push_rows = 64;  // rows of one piece of a pushed shard, 8 KiB
inline constexpr int push_piece_bytes = push_rows * gemm_tile_depth * 2;
inline constexpr int push_bytes = 2 * push_piece_bytes;  // one piece that is stored and one that is loaded
inline constexpr int behind_rings_bytes = 2048;          // of shared memory for barriers, context and instruments
inline constexpr int max_stages = 20;
inline constexpr int max_output_maps = 24;
inline constexpr unsigned char empty_exchange_byte =
    0xFF;                              // of slots of the exchange through registers, see exchange.cuh
inline constexpr int store_warps = 2;  // of a CTA: each posts in a call that it has stored all

/// Properties of one region of the schedule.
struct GemmRegionTarget {
  std::int32_t a_map;          // 0: the local operand, 1: the gathered one of this call
  std::int32_t a_row_begin;    // row of that operand at which the region begins
  std::int32_t b_row_begin;    // column of the whole output at which it begins
  std::int32_t local_output;   // 1: goes to the caller's own matrix, else into the heap
  std::int32_t output_map;     // first tensor map of its destinations: GemmLaunch::output or HeapMaps::output
  std::int32_t output_copies;  // number of destinations (all-reduce: every rank)
  std::int32_t remote;         // 1: at least one destination is a peer's memory
  std::int32_t signal_rank;    // rank to signal for each half tile; -1: none
  std::uint32_t signal_begin;  // first half-tile flag there
  std::int32_t reduce;         // 1: the slots of all other ranks are added first
  std::int32_t exchange;       // 1: partial sums are exchanged with all other ranks through registers
  std::int32_t wide;           // 1: partial sums of this region travel in fp32
  std::int32_t raw;            // 1: a partial sum, which leaves without bias and activation
  std::int32_t gather_rank;    // rank whose rows these are if they arrive in chunks; -1: local rows
  std::int32_t head_steps;     // bit 0: RMS norm, bit 1: rotary embedding
  std::int32_t norm_row;       // row of norm_weight
};

/// Parameters of an all-gather: how the rows of a peer arrive.
struct GatherParameters {
  std::int32_t chunk_rows;   // multiple of the tile's rows
  std::int32_t chunk_depth;  // multiple of the k-block
  std::int32_t row_chunks;   // chunks along the rows of the largest shard
  std::int32_t depth_chunks;
  std::int32_t push;        // 1: this kernel pushes its own shard; 0: the copy engine does
  std::int32_t push_warps;  // of each CTA: 1 or 2
  std::int32_t buffers;     // number of gathered operands; 2 alternate, so that the first push need not wait for a peer
};

}  // namespace xstage::kernels
