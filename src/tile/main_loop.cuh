#pragma once
// The main loop shared by all GEMM kernels: a ring of shared-memory stages that one thread fills by TMA and two
// warpgroups empty with WGMMA. bf16 operands, both with k contiguous, fp32 accumulators in registers.
//
//   stage s:  A [128 rows, 64]  16 KiB        warpgroup 1 multiplies rows  0 - 63,  all columns
//             B [columns, 64]                 warpgroup 2 multiplies rows 64 - 127, all columns
//
// In steady state WGMMA reads two of the stages, and the loads of the others are in flight. The number of stages must
// cover the latency of L2, which is 1.5 us or more when all multiprocessors load: with 6 stages a k-block of 128 x 128
// took 0.42 us, the multiplication alone 0.28.
//
// Both operands lie in 128-byte rows with the 128-byte swizzle, which TMA writes and which the descriptors of WGMMA and
// stmatrix expect.

// This header must come first: without it the atoms below compile to a run-time assertion.
#include <cute/arch/config.hpp>
//
#include <cutlass/arch/barrier.h>
#include <cute/arch/copy_sm90_tma.hpp>
#include <cute/arch/mma_sm90_desc.hpp>
#include <cute/arch/mma_sm90_gmma.hpp>

#include <cstdint>
#include <utility>

#include "tile/tile_shape.hpp"

namespace xstage::kernels {

using TransactionBarrier = cutlass::arch::ClusterTransactionBarrier;
using ArrivalBarrier = cutlass::arch::ClusterBarrier;

/// Position in a ring: index of the stage and the parity of its current round.
struct RingPosition {
  std::int32_t index = 0;
  std::uint32_t parity = 0;

  __device__ void advance(std::int32_t size) {
    if (++index == size) {
      index = 0;
      parity ^= 1U;
    }
  }
};

/// Parities of barriers that are not used in ring order: one bit each, flipped at every use.
struct BarrierParities {
  std::uint32_t bits = 0;

  __device__ std::uint32_t next(std::int32_t index) {
    const std::uint32_t parity = (bits >> index) & 1U;
    bits ^= 1U << index;
    return parity;
  }
};

template <int Columns>
struct MultiplyAtom;
template <>
struct MultiplyAtom<256> {
  using Type = cute::SM90::GMMA::MMA_64x256x16_F32BF16BF16_SS<cute::SM90::GMMA::Major::K, cute::SM90::GMMA::Major::K>;
};
template <>
struct MultiplyAtom<128> {
  using Type = cute::SM90::GMMA::MMA_64x128x16_F32BF16BF16_SS<cute::SM90::GMMA::Major::K, cute::SM90::GMMA::Major::K>;
};
template <>
struct MultiplyAtom<64> {
  using Type = cute::SM90::GMMA::MMA_64x64x16_F32BF16BF16_SS<cute::SM90::GMMA::Major::K, cute::SM90::GMMA::Major::K>;
};
template <>
struct MultiplyAtom<16> {
  using Type = cute::SM90::GMMA::MMA_64x16x16_F32BF16BF16_SS<cute::SM90::GMMA::Major::K, cute::SM90::GMMA::Major::K>;
};

/// Bytes of the operands of a whole tile.
template <int TileColumns>
struct Stage {
  static constexpr int a_bytes = gemm_tile_rows * gemm_tile_depth * 2;
  static constexpr int b_bytes = TileColumns * gemm_tile_depth * 2;
};

/// The ring of operands in shared memory. With few rows of A its stages are smaller, and there are more of them. Narrow
/// tiles have stages of two k-blocks: TMA begins one load every 0.1 us, and the two loads of a single k-block would
/// take longer than its multiplication.
struct OperandRing {
  char* first;
  std::int32_t stage_bytes;
  std::int32_t stage_blocks;   // k-blocks of a stage
  std::int32_t a_half_bytes;   // from rows 0 - 63 of A to rows 64 - 127
  std::int32_t a_block_bytes;  // from one k-block of A to the next
  std::int32_t b_offset;       // of B in a stage
  std::int32_t stages;
  TransactionBarrier* full;
  ArrivalBarrier* empty;

  [[nodiscard]] __device__ char* stage(std::int32_t index) const { return first + index * stage_bytes; }
};

/// WGMMA descriptor of a K-major operand in 128-byte swizzled rows: eight rows are one swizzle atom of 1024 bytes.
__device__ inline std::uint64_t operand_descriptor(const void* shared_address) {
  cute::GmmaDescriptor descriptor;
  descriptor.bitfield.start_address_ = static_cast<std::uint16_t>(cute::cast_smem_ptr_to_uint(shared_address) >> 4U);
  descriptor.bitfield.layout_type_ = 1;  // 128-byte swizzle
  descriptor.bitfield.leading_byte_offset_ = 0;
  descriptor.bitfield.stride_byte_offset_ = 1024 >> 4;
  descriptor.bitfield.base_offset_ = 0;
  return descriptor;
}

template <int TileColumns>
struct MainLoop {
  static constexpr std::size_t accumulators = TileColumns / 2;  // per thread: 64 x columns over 128 threads

  template <std::size_t... Index>
  __device__ static void multiply_step(float (&accumulator)[accumulators], std::uint64_t a, std::uint64_t b,
                                       cute::SM90::GMMA::ScaleOut scale, std::index_sequence<Index...>) {
    MultiplyAtom<TileColumns>::Type::fma(a, b, accumulator[Index]..., scale);
  }

  /// Enqueues the four WGMMAs of one k-block; `fresh` starts a new sum.
  __device__ static void multiply_block(float (&accumulator)[accumulators], const char* a_half, const char* b_block,
                                        bool fresh) {
    const std::uint64_t a = operand_descriptor(a_half);
    const std::uint64_t b = operand_descriptor(b_block);
    cute::warpgroup_arrive();
#pragma unroll
    for (int step = 0; step < gemm_tile_depth / 16; ++step) {
      const auto scale = fresh && step == 0 ? cute::SM90::GMMA::ScaleOut::Zero : cute::SM90::GMMA::ScaleOut::One;
      // 16 bf16 further along k: 32 bytes, in the descriptor's unit of 16.
      multiply_step(accumulator, a + 2U * step, b + 2U * step, scale, std::make_index_sequence<accumulators>{});
    }
    cute::warpgroup_commit_batch();
  }

  /// Releases a stage to the loaders of all CTAs that share it: thread i of the warpgroup arrives at the barrier of CTA
  /// i of the cluster.
  __device__ static void release(ArrivalBarrier* empty, std::int32_t index, std::uint32_t cluster_size) {
    const std::uint32_t thread = threadIdx.x % 128U;
    if (thread < cluster_size) {
      empty[index].arrive(thread);
    }
  }

  /// Most k-blocks of a stage.
  static constexpr std::int32_t most_blocks = TileColumns == 64 ? 2 : 1;

  /// Multiplies all k-blocks of a tile. A stage is released one block late, when the WGMMA of the next block is already
  /// queued.
  __device__ static void multiply(float (&accumulator)[accumulators], const OperandRing& ring, RingPosition& position,
                                  std::int32_t blocks, int row_half, std::uint32_t cluster_size) {
    std::int32_t previous = -1;
    std::int32_t in_stage = 0;
    for (std::int32_t block = 0; block < blocks; ++block) {
      if (in_stage == 0) {
        ring.full[position.index].wait(position.parity);
      }
      const char* stage = ring.stage(position.index);
      multiply_block(accumulator, stage + row_half * ring.a_half_bytes + in_stage * ring.a_block_bytes,
                     stage + ring.b_offset + in_stage * Stage<TileColumns>::b_bytes, block == 0);
      if (block > 0) {
        cute::warpgroup_wait<1>();
      }
      if (in_stage == 0 && previous >= 0) {
        release(ring.empty, previous, cluster_size);
      }
      if (most_blocks == 1 || ++in_stage == ring.stage_blocks) {
        in_stage = 0;
        previous = position.index;
        position.advance(ring.stages);
      }
    }
    cute::warpgroup_wait<0>();
    release(ring.empty, previous, cluster_size);
  }
};

}  // namespace xstage::kernels
