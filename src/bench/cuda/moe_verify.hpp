#pragma once
// Looks at what a layer leaves behind.

#include "bench/cuda/moe_variants.hpp"

namespace xstage::bench {

/// Largest error of the last call, in roundings of bf16, on a sample of columns of one token of every rank,
/// against the layer in double (bench/moe_reference.hpp). `set`: the tokens of that call.
[[nodiscard]] double largest_error(const MoeResources& resources, int set, moe::Combine combine);

}  // namespace xstage::bench
