#pragma once
// Compares a fused GEMM's results with sums in double, on a sample of rows and columns.

#include "ops/gemm/bench/cuda/variants.hpp"

namespace xstage::bench {

/// Before a call whose results are to be verified: NaN wherever it has to write, on all ranks.
void poison_results(const GemmResources& resources, GemmHandles& handles);

/// After it: largest error of all ranks and parts, in roundings (sampled_result.hpp). `set`: the operands of that
/// call.
[[nodiscard]] double largest_error(const GemmResources& resources, GemmHandles& handles, int set);

}  // namespace xstage::bench
