#pragma once
// Which GEMMs `xstage bench gemm` measures. A cell is one operation on one shape; its variants are measured against
// each other. Pure host code.

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

/// What each rank multiplies if nothing is communicated; where ranks differ, the largest share.
[[nodiscard]] GemmShape shape_of_rank(const GemmCell& cell);

/// Floating-point operations of one rank.
[[nodiscard]] double operations_of_rank(const GemmCell& cell);

/// "gemm,reduce_scatter,..." in that order, each once. InputError for a name that is none.
[[nodiscard]] std::vector<gemm::Operation> parse_operations(std::string_view text);

/// Shapes that each operation has of its own (shared by the baselines), or some for all.
struct ShapeChoice {
  enum class Kind { table, small, decode, listed };
  Kind kind = Kind::table;
  std::vector<GemmShape> listed;
};

/// "table", "small", "decode" or "MxNxK,...". InputError for anything else.
[[nodiscard]] ShapeChoice parse_shapes(std::string_view text);

/// Cells of the operations on so many ranks, none twice; those of `gemm` have one rank. InputError if a shape breaks a
/// rule of its operation, or nothing is left to measure.
[[nodiscard]] std::vector<GemmCell> make_cells(const std::vector<gemm::Operation>& operations,
                                               const ShapeChoice& shapes, int ranks);

/// "3x40" heads of an all-to-all, empty for others.
[[nodiscard]] std::string heads_text(const gemm::Problem& problem);

/// "gemm_reduce_scatter 8192x8192x8192 on 2 ranks".
[[nodiscard]] std::string cell_name(const GemmCell& cell);

}  // namespace xstage::bench
