#pragma once
// The cells of `xstage bench gemm`. A cell is one operation on one shape; its variants are measured against each other.
// Host code without CUDA.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "xstage/gemm.hpp"

namespace xstage::bench {

/// m, n, k of the whole problem on that many ranks.
struct GemmCell {
  gemm::Problem problem;
  int ranks = 1;
};

/// A product as one GPU computes it: C[m, n] = A[m, k] * B[n, k]^T.
struct GemmShape {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  bool operator==(const GemmShape&) const = default;
};

/// The product that each rank computes without communication; where ranks differ, the largest one.
[[nodiscard]] GemmShape shape_of_rank(const GemmCell& cell);

/// Floating-point operations of one rank.
[[nodiscard]] double operations_of_rank(const GemmCell& cell);

/// Parses "gemm,reduce_scatter,...": operations in that order, each once. InputError for an unknown name.
[[nodiscard]] std::vector<gemm::Operation> parse_operations(std::string_view text);

/// Shapes: each operation's own ones, which the baselines share, or the same ones for all operations.
struct ShapeChoice {
  enum class Kind { table, small, decode, listed };
  Kind kind = Kind::table;
  std::vector<GemmShape> listed;
};

/// "table", "small", "decode" or "MxNxK,...". InputError for anything else.
[[nodiscard]] ShapeChoice parse_shapes(std::string_view text);

/// Cells of the operations on `ranks` ranks, without duplicates; those of `gemm` have one rank. InputError if a shape
/// breaks a rule of its operation, or nothing is left to measure.
[[nodiscard]] std::vector<GemmCell> make_cells(const std::vector<gemm::Operation>& operations,
                                               const ShapeChoice& shapes, int ranks);

/// Heads of an all-to-all as "3x40"; empty for other operations.
[[nodiscard]] std::string heads_text(const gemm::Problem& problem);

/// "gemm_reduce_scatter 8192x8192x8192 on 2 ranks".
[[nodiscard]] std::string cell_name(const GemmCell& cell);

}  // namespace xstage::bench
