#pragma once
// Shapes of the attention kernel's tiles, and where they lie in shared memory. Host and device.
//
//   query   [2 halves of head_dim][128 rows][64]     32 KiB   one
//   key     [2 halves of head_dim][keys][64]         40 KiB   two stages (160 keys)
//   value   [2 halves of head_dim][keys][64]         40 KiB   two stages
//   staging [2 halves of head_dim][128 rows][64]     32 KiB   of results on their way out
//
// A half is 64 elements, one 128-byte swizzled row: what TMA writes, WGMMA reads and stmatrix fills. 160 keys are the
// most that leave the results a place of their own: with 176 they would have to lie where the next tile's values go,
// and a slow store would stop the loads.

#include <cstdint>

namespace xstage::kernels {

inline constexpr int half_columns = 64;        // elements in 128 bytes
inline constexpr int key_stages = 2;           // and of values

template <int HeadDim, int BlockKeys, int Warpgroups>
struct AttentionTile {
  static constexpr int warpgroups = Warpgroups;
  static constexpr int rows = 64 * Warpgroups;
  static constexpr int threads = 128 * (Warpgroups + 1);
  static constexpr int loader_registers = Warpgroups == 3 ? 32 : 24;
  static constexpr int attend_registers = Warpgroups == 3 ? 160 : 240;
  static constexpr int head_dim = HeadDim;
  static constexpr int block_keys = BlockKeys;
  static constexpr int halves = HeadDim / half_columns;

  static constexpr int query_half_bytes = rows * 128;
  static constexpr int query_bytes = halves * query_half_bytes;
  static constexpr int block_half_bytes = BlockKeys * 128;
  static constexpr int block_bytes = halves * block_half_bytes;  // of keys or values
  // Keys and values of a block come in two pieces, one for each CTA of a cluster of two: halves of head_dim, or if there
  // is only one, halves of the rows.
  static constexpr int piece_rows = halves == 2 ? BlockKeys : BlockKeys / 2;
  static constexpr int piece_bytes = block_bytes / 2;
  static constexpr int staging_half_bytes = 64 * 128;
  static constexpr int staging_bytes = Warpgroups * halves * staging_half_bytes;

  static constexpr int query_offset = 0;
  static constexpr int key_offset = query_offset + query_bytes;
  static constexpr int value_offset = key_offset + key_stages * block_bytes;
  static constexpr int staging_offset = value_offset + key_stages * block_bytes;
  static constexpr int barrier_offset = staging_offset + staging_bytes;
  static constexpr int barrier_bytes = 512;
  static constexpr int shared_bytes = barrier_offset + barrier_bytes;
  // A swizzle atom has 1024 bytes; dynamic shared memory need not begin at a multiple.
  static constexpr int alignment = 1024;
  static_assert(shared_bytes + alignment <= 227 * 1024);
};

}  // namespace xstage::kernels
