#pragma once
// The products that make an element of a fused GEMM's result: a second statement of what the operations compute,
// independent of the layout that the kernel is launched with.

#include <cstdint>
#include <vector>

#include "bench/sampling.hpp"
#include "ops/gemm/bench/cells.hpp"

namespace xstage::bench {

/// One of the matrices that a rank has afterwards.
struct ResultShape {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
};

/// A row of one rank's A times a row of one rank's B.
struct Product {
  int a_rank = 0;
  std::int64_t a_row = 0;
  int b_rank = 0;
  std::int64_t b_row = 0;
  bool operator==(const Product&) const = default;
};

/// Columns of both operands as one rank has them.
[[nodiscard]] std::int64_t depth_of_rank(const GemmCell& cell);

/// The results of a rank, by part; all operations but all_to_all have one part.
[[nodiscard]] std::vector<ResultShape> result_shapes(const GemmCell& cell, int rank);

/// The products whose sum is element (row, column) of that part of that rank's result.
[[nodiscard]] std::vector<Product> products_of(const GemmCell& cell, int rank, std::size_t part, std::int64_t row,
                                               std::int64_t column);

}  // namespace xstage::bench
