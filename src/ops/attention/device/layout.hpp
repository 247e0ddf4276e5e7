#pragma once
// Constants of an attention launch that need no CUDA: the shapes of tiles, and their places in shared memory.
//
//   query    [warpgroup][halves][64 rows][64]   48 KiB   one for each of three multiplying warpgroups
//   key      [halves][128 keys][64]             32 KiB   two stages
//   value    [halves][128 keys][64]             32 KiB   two stages
//   results  [warpgroup][halves][64 rows][64]   48 KiB   on their way out
//
// A half is 64 elements of head_dim, one 128-byte swizzled row, as TMA writes, WGMMA reads and stmatrix fills it. Sizes
// are those of head_dim 128. Results have their own memory: if they were staged over the query or over the next tile's
// values, a slow store would delay the loads.
//
// There are three warpgroups of 64 rows and not two: while one computes its softmax, the other two keep the tensor
// cores busy. Two warpgroups with blocks of 160 keys, which took turns and overlapped their own two products, were 5 to
// 8% slower (docs/notes).

namespace xstage::kernels {

inline constexpr int warpgroup_rows = 64;
inline constexpr int attend_warpgroups = 3;
inline constexpr int attention_tile_rows = attend_warpgroups * warpgroup_rows;
inline constexpr int attention_block_keys = 128;
inline constexpr int attention_threads = 128 * (attend_warpgroups + 1);  // one warpgroup loads and stores
inline constexpr int key_stages = 2;                                     // and of values
inline constexpr int half_columns = 64;
// Rows of one bulk store to a peer; with the 64 columns of a half they are 4 KiB.
inline constexpr int remote_store_rows = 32;

template <int HeadDim>
struct AttentionLayout {
  static constexpr int halves = HeadDim / half_columns;

  // Registers of a thread. With head_dim 128 neither the multiplying warpgroups nor the helpers have one to spare.
  static constexpr int multiply_registers = HeadDim == 128 ? 160 : 152;
  static constexpr int helper_registers = HeadDim == 128 ? 32 : 56;
  static_assert(128 * (helper_registers + attend_warpgroups * multiply_registers) <= 65536);

  static constexpr int block_half_bytes = attention_block_keys * 128;
  static constexpr int block_bytes = halves * block_half_bytes;  // of keys or values
  static constexpr int slab_half_bytes = warpgroup_rows * 128;
  static constexpr int slab_bytes = halves * slab_half_bytes;  // queries or results of one warpgroup

  static constexpr int query_offset = 0;
  static constexpr int key_offset = query_offset + attend_warpgroups * slab_bytes;
  static constexpr int value_offset = key_offset + key_stages * block_bytes;
  static constexpr int results_offset = value_offset + key_stages * block_bytes;
  static constexpr int barriers_offset = results_offset + attend_warpgroups * slab_bytes;
  static constexpr int barriers_bytes = 1024;
  static constexpr int bytes = barriers_offset + barriers_bytes;
  static_assert(bytes <= 227 * 1024);
};

}  // namespace xstage::kernels
