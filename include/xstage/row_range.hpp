#pragma once
// Which rows of a matrix or sequence belong to which rank. All operations share this rule.

#include <algorithm>
#include <cstdint>

namespace xstage {

/// Rows [begin, begin + count).
struct RowRange {
  std::int64_t begin;
  std::int64_t count;
};

/// ceil(rows / world) rows for each rank; the last ranks have fewer or none. Requires `rows` >= 0 and 0 <= `rank` <
/// `world`.
[[nodiscard]] inline RowRange row_range(std::int64_t rows, int rank, int world) {
  const std::int64_t each = (rows + world - 1) / world;
  const std::int64_t begin = std::min(rows, each * rank);
  return {begin, std::min(rows, begin + each) - begin};
}

}  // namespace xstage
