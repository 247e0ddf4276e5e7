#pragma once
// A token's expected result in double. This statement of the layer does not know dispatch, tiles and packing. It
// computes single tokens and columns, so that samples can check layers that are too large for a CPU.
//
//   gate, up   = token * linear1^T                      exact, where kernels accumulate in fp32
//   activated  = router_weight * silu(gate) * up        rounded to bf16: what Linear-2 reads
//   row        = activated * linear2^T                  rounded to bf16, one for each choice
//   output     = row of choice 0 + row of choice 1 ...  added in fp32 in this order, from 0 on, rounded to bf16
//
// With Combine::partial_sums the rows of another rank's experts are replaced by one in the place of the first of them:
// their sum, added in the same way and rounded to bf16.
//
// gate and up are not rounded; clamp, silu and router weight are applied in fp32 by kernels, in double here.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "xstage/moe.hpp"

namespace xstage::moe {

/// A row of an expert's weights, as bf16. `expert` counts through all ranks. Valid until the next call.
using WeightRow = std::function<std::span<const std::uint16_t>(int expert, std::int64_t row)>;

/// Weights that are not packed.
struct ExpertWeights {
  WeightRow gate;     // rows 0 to intermediate, of `hidden` elements
  WeightRow up;       // the same
  WeightRow linear2;  // rows 0 to hidden, of `intermediate` elements
};

/// Whether the reference rounds where kernels do, or nowhere, which is the result that all implementations approximate.
enum class Rounding { as_kernels, none };

/// weight * silu(gate) * up with Problem::clamp; not rounded.
[[nodiscard]] double activate(double gate, double up, double weight, float clamp);

/// What Linear-2 reads for one choice of a token: [intermediate].
[[nodiscard]] std::vector<double> activated_row(const Problem& problem, std::span<const std::uint16_t> token,
                                                int expert, float router_weight, const ExpertWeights& weights,
                                                Rounding rounding);

/// Some columns of a result.
struct ReferenceResult {
  std::vector<double> expected;
  /// Root of the sum of squares of the numbers that are rounded to bf16 on the way to an element: each choice's row,
  /// the terms activated * linear2 of each choice, and partial sums. These roundings are independent of each other and
  /// add up to this size; largest_error allows for it.
  std::vector<double> spread;
};

/// Columns of one choice's row of Linear-2.
[[nodiscard]] ReferenceResult linear2_columns(std::span<const double> activated, int expert,
                                              std::span<const std::int64_t> columns, const ExpertWeights& weights,
                                              Rounding rounding);

/// One token's choices.
struct ReferenceToken {
  std::span<const std::uint16_t> token;   // bf16 [hidden]
  std::span<const std::int32_t> experts;  // [top_k]
  std::span<const float> router_weights;  // [top_k]; those of expert -1 are not read
  int rank = 0;                           // which has the token
};

/// Columns of the layer's output for one token.
[[nodiscard]] ReferenceResult layer_columns(const Problem& problem, const ReferenceToken& token,
                                            std::span<const std::int64_t> columns, const ExpertWeights& weights,
                                            Combine combine, Rounding rounding = Rounding::as_kernels);

/// Combine alone: bf16 rows [choices, columns] added in their order in fp32, rounded to bf16. Kernels have exactly
/// this.
[[nodiscard]] std::vector<std::uint16_t> combine_rows(std::span<const std::uint16_t> rows, std::size_t choices);

/// The largest error of a result, in roundings of bf16: error_in_roundings with the spread of each element. Not above
/// bench::most_roundings for a kernel that is right.
[[nodiscard]] double largest_error(std::span<const float> result, const ReferenceResult& reference);

}  // namespace xstage::moe
