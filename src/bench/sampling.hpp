#pragma once
// Chooses the elements of a result that are verified, and bounds their errors.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace xstage::bench {

/// At most `count` numbers of [0, extent), ascending, each once; the first and the last are among them.
[[nodiscard]] std::vector<std::int64_t> sample(std::int64_t extent, std::size_t count, std::uint64_t seed);

/// Error of a bf16 result in units of 2^-8 (|expected| + root mean square of all that is expected).
[[nodiscard]] double error_in_roundings(double result, double expected, double root_mean_square);

/// Twice the rounding of the result itself: partial sums are rounded too.
inline constexpr double most_roundings = 2.0;

}  // namespace xstage::bench
