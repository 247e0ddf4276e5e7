#pragma once
// Compares a fused GEMM's results with sums in double, on a sample of rows and columns.

#include "ops/gemm/bench/cuda/variants.hpp"

namespace xstage::bench {

/// To be called before a call whose results are verified: writes NaN on all ranks wherever the call has to write.
void poison_results(const GemmResources& resources, GemmHandles& handles);

/// To be called after it: the largest error of all ranks and parts, in roundings (sampled_result.hpp). `set` is the
/// operand set of that call.
[[nodiscard]] double largest_error(const GemmResources& resources, GemmHandles& handles, int set);

}  // namespace xstage::bench
