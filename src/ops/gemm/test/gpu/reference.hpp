#pragma once
// The results of a fused GEMM in double, stated without the kernels' layout (bench/gemm_sampled_result).

#include <string>

#include "ops/gemm/test/gpu/support.hpp"

namespace xstage::gemm_test {

/// Compares a call's results with the reference: every element is a number, a sample of them is right, guards are
/// intact, and all ranks of an all-reduce have the same bits. Empty: all is well. What is right:
///
///   |x - reference| <= 2 * 2^-8 * (|reference| + sum of |partial sums|) + 2^-14 * root mean square
///
/// Rounding to bf16 is off by at most 2^-8 of the number, and every partial sum that ranks exchange is rounded once;
/// the factor 2 is the tolerance. The last term is for sums in fp32 whose result is close to zero. Partial sums count
/// only where there are several.
[[nodiscard]] std::string complaint_about(const Case& which, const Call& call);

}  // namespace xstage::gemm_test
