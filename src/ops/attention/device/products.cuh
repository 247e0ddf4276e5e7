#pragma once
// The two matrix products of attention, issued by one warpgroup. Both are asynchronous; cute::warpgroup_wait waits for
// them.
//
//   scores [64, keys]      = query [64, head_dim] (shared, K-major) x key [keys, head_dim] (shared, K-major)
//   output [64, head_dim] += probabilities [64, keys] (registers)   x value [keys, head_dim] (shared, head_dim-major)

// This header must come first: without it the atoms below compile to a run-time assertion.
#include <cute/arch/config.hpp>
//
#include <cutlass/numeric_types.h>
#include <cute/arch/mma_sm90.hpp>
#include <cute/arch/mma_sm90_desc.hpp>

#include <cstdint>
#include <utility>

#include "ops/attention/device/layout.hpp"

namespace xstage::kernels {

template <class Element>
using ScoreAtom =
    decltype(cute::SM90::GMMA::ss_op_selector<Element, Element, float,
                                              cute::Shape<cute::_64, cute::Int<attention_block_keys>, cute::_16>,
                                              cute::SM90::GMMA::Major::K, cute::SM90::GMMA::Major::K>());
template <class Element, int HeadDim>
using OutputAtom =
    decltype(cute::SM90::GMMA::rs_op_selector<Element, Element, float,
                                              cute::Shape<cute::_64, cute::Int<HeadDim>, cute::_16>,
                                              cute::SM90::GMMA::Major::K, cute::SM90::GMMA::Major::MN>());

/// Descriptor of an operand in 128-byte swizzled rows. `leading_bytes` is the distance to the next 64 rows or columns,
/// for an operand that is not K-major.
__device__ inline std::uint64_t swizzled_descriptor(std::uint32_t shared_address, int leading_bytes) {
  cute::GmmaDescriptor descriptor;
  descriptor.bitfield.start_address_ = static_cast<std::uint16_t>(shared_address >> 4U);
  descriptor.bitfield.layout_type_ = 1;  // 128-byte swizzle
  descriptor.bitfield.leading_byte_offset_ = static_cast<std::uint16_t>(leading_bytes >> 4);
  descriptor.bitfield.stride_byte_offset_ = 1024 >> 4;  // eight rows, one swizzle atom
  descriptor.bitfield.base_offset_ = 0;
  return descriptor;
}

template <int HeadDim, class Element>
struct AttentionProducts {
  using Layout = AttentionLayout<HeadDim>;
  static constexpr std::size_t score_values = attention_block_keys / 2;  // of one thread: 64 x keys over 128 threads
  static constexpr std::size_t output_values = HeadDim / 2;
  static constexpr std::size_t steps = attention_block_keys / 16;  // of the second product, 16 keys each
  using Scores = float (&)[score_values];
  using Output = float (&)[output_values];
  /// Pairs of elements in one step's fragment of a 64 x 16 operand.
  static constexpr std::size_t step_pairs = 4;

  /// `query` is the shared-memory address of the first of this warpgroup's 64 rows.
  __device__ static void multiply_scores(Scores scores, std::uint32_t query, std::uint32_t key) {
    const std::uint64_t query_rows = swizzled_descriptor(query, 0);
    const std::uint64_t key_rows = swizzled_descriptor(key, 0);
    fence(scores);
    cute::warpgroup_arrive();
#pragma unroll
    for (int step = 0; step < HeadDim / 16; ++step) {
      // 16 elements further are 32 bytes, in the descriptor's unit of 16.
      const int half = step / 4;
      const int within = 2 * (step % 4);
      score_step(scores, query_rows + static_cast<std::uint64_t>(half * (Layout::slab_half_bytes >> 4) + within),
                 key_rows + static_cast<std::uint64_t>(half * (Layout::block_half_bytes >> 4) + within),
                 step == 0 ? cute::SM90::GMMA::ScaleOut::Zero : cute::SM90::GMMA::ScaleOut::One,
                 std::make_index_sequence<score_values>{});
    }
    cute::warpgroup_commit_batch();
    fence(scores);
  }

  /// Multiplies the probabilities of steps [First, Last) of a block with the values of these keys.
  template <std::size_t First, std::size_t Last>
  __device__ static void multiply_output(Output output, std::uint32_t (&probabilities)[step_pairs * (Last - First)],
                                         std::uint32_t value) {
    const std::uint64_t value_rows = swizzled_descriptor(value, Layout::block_half_bytes);
    fence(output);
    fence(probabilities);
    cute::warpgroup_arrive();
#pragma unroll
    for (std::size_t step = First; step < Last; ++step) {
      output_step(output, &probabilities[step_pairs * (step - First)], value_rows + step * (16 * 128 >> 4),
                  std::make_index_sequence<output_values>{});
    }
    cute::warpgroup_commit_batch();
    fence(output);
  }

  /// Keeps the compiler from moving uses of registers over products that still read or write them.
  template <class Value, std::size_t Count>
  __device__ static void fence(Value (&values)[Count]) {
#pragma unroll
    for (std::size_t index = 0; index < Count; ++index) {
      cute::warpgroup_fence_operand(values[index]);
    }
  }

 private:
  template <std::size_t... Index>
  __device__ static void score_step(Scores scores, std::uint64_t query, std::uint64_t key,
                                    cute::SM90::GMMA::ScaleOut scale, std::index_sequence<Index...>) {
    ScoreAtom<Element>::fma(query, key, scores[Index]..., scale);
  }

  template <std::size_t... Index>
  __device__ static void output_step(Output output, const std::uint32_t* pair, std::uint64_t value,
                                     std::index_sequence<Index...>) {
    OutputAtom<Element, HeadDim>::fma(pair[0], pair[1], pair[2], pair[3], value, output[Index]...,
                                      cute::SM90::GMMA::ScaleOut::One);
  }
};

}  // namespace xstage::kernels
