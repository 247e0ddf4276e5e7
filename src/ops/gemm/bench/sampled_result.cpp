#include "ops/gemm/bench/sampled_result.hpp"

namespace xstage::bench {

using gemm::Operation;

std::int64_t depth_of_rank(const GemmCell& cell) { return shape_of_rank(cell).k; }

std::vector<ResultShape> result_shapes(const GemmCell& cell, int rank) {
  const gemm::Problem& problem = cell.problem;
  switch (problem.operation) {
    case Operation::reduce_scatter:
      return {{gemm::row_range(problem.m, rank, cell.ranks).count, problem.n}};
    case Operation::all_gather:
      return {{problem.m, problem.n / cell.ranks}};
    case Operation::all_to_all: {
      std::vector<ResultShape> shapes;
      for (const gemm::HeadPart& part : problem.parts) {
        shapes.push_back({problem.m, std::int64_t{part.heads} / cell.ranks * problem.head_dim});
      }
      return shapes;
    }
    case Operation::gemm:
    case Operation::all_reduce:
      break;
  }
  return {{problem.m, problem.n}};
}

namespace {

std::vector<Product> of_all_ranks(const GemmCell& cell, std::int64_t row, std::int64_t column) {
  std::vector<Product> products;
  products.reserve(static_cast<std::size_t>(cell.ranks));
  for (int rank = 0; rank < cell.ranks; ++rank) {
    products.push_back({rank, row, rank, column});
  }
  return products;
}

/// Rows come from the rank that owns them, multiplied there or here.
Product of_owner(const GemmCell& cell, std::int64_t row) {
  const int owner = static_cast<int>(row / gemm::row_range(cell.problem.m, 0, cell.ranks).count);
  return {owner, row - gemm::row_range(cell.problem.m, owner, cell.ranks).begin, owner, 0};
}

/// Row of B that makes this column: part after part, and in each the heads of all ranks.
std::int64_t row_of_head(const GemmCell& cell, int rank, std::size_t part, std::int64_t column) {
  const gemm::Problem& problem = cell.problem;
  std::int64_t begin = 0;
  for (std::size_t before = 0; before < part; ++before) {
    begin += std::int64_t{problem.parts[before].heads} * problem.head_dim;
  }
  const std::int64_t columns = std::int64_t{problem.parts[part].heads} / cell.ranks * problem.head_dim;
  return begin + rank * columns + column;
}

}  // namespace

std::vector<Product> products_of(const GemmCell& cell, int rank, std::size_t part, std::int64_t row,
                                 std::int64_t column) {
  switch (cell.problem.operation) {
    case Operation::reduce_scatter:
      return of_all_ranks(cell, gemm::row_range(cell.problem.m, rank, cell.ranks).begin + row, column);
    case Operation::all_reduce:
      return of_all_ranks(cell, row, column);
    case Operation::all_gather: {
      Product product = of_owner(cell, row);
      product.b_rank = rank;
      product.b_row = column;
      return {product};
    }
    case Operation::all_to_all: {
      Product product = of_owner(cell, row);
      product.b_row = row_of_head(cell, rank, part, column);
      return {product};
    }
    case Operation::gemm:
      break;
  }
  return {{rank, row, rank, column}};
}

}  // namespace xstage::bench
