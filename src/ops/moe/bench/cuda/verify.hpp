#pragma once
// Verifies the results of a layer.

#include "ops/moe/bench/cuda/variants.hpp"

namespace xstage::bench {

/// Largest error of the last call, in roundings of bf16, on a sample of columns of one token of every rank, against the
/// layer in double (ops/moe/bench/reference.hpp). `set` is the token set of that call.
[[nodiscard]] double largest_error(const MoeResources& resources, int set, moe::Combine combine);

}  // namespace xstage::bench
