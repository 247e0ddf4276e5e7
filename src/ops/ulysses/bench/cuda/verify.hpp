#pragma once
// Verifies the results of `fused` and `flags`.

#include <cstdint>
#include <vector>

#include "ops/ulysses/bench/cuda/variants.hpp"

namespace xstage::bench {

/// Largest error of the last call, in roundings of bf16, on a sample of elements and rows. Each of the three operations
/// is compared with the same operation in double on its actual operands: Q, K and V and the attention's result as they
/// lie on the GPUs, each verified before the next operation reads them. `set` is the operand set of that call.
[[nodiscard]] double largest_error(const UlyssesResources& resources, const UlyssesVariants& variants, int set);

/// A layer's results on all ranks, as bits.
using UlyssesResults = std::vector<std::vector<std::uint16_t>>;

[[nodiscard]] UlyssesResults read_results(const UlyssesResources& resources);

/// Number of elements of the current results that differ from `results` or are NaN.
[[nodiscard]] std::int64_t count_differing(const UlyssesResources& resources, const UlyssesResults& results);

}  // namespace xstage::bench
