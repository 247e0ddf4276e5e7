#pragma once
// Looks at what `fused` and `flags` leave behind.

#include <cstdint>
#include <vector>

#include "ops/ulysses/bench/cuda/variants.hpp"

namespace xstage::bench {

/// Largest error of the last call, in roundings of bf16, on a sample of elements and rows. Each of the three operations
/// is compared with the same in double on the operands that it had: Q, K and V and the attention's result as they lie
/// on the GPUs, the first checked before the second reads them. `set`: the operands of that call.
[[nodiscard]] double largest_error(const UlyssesResources& resources, const UlyssesVariants& variants, int set);

/// A layer's results on all ranks, as bits.
using UlyssesResults = std::vector<std::vector<std::uint16_t>>;

[[nodiscard]] UlyssesResults read_results(const UlyssesResources& resources);

/// Elements that differ from `results` in what the ranks have now, or are NaN.
[[nodiscard]] std::int64_t count_differing(const UlyssesResources& resources, const UlyssesResults& results);

}  // namespace xstage::bench
