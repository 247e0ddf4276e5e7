#pragma once
// The cells of `xstage bench ulysses`, and the operations of a Ulysses layer. A cell is one shape; its variants are
// measured against each other. Host code without CUDA.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ops/attention/bench/cells.hpp"
#include "ops/gemm/bench/cells.hpp"

namespace xstage::bench {

/// Tokens of one sequence, and heads of all ranks together; the hidden size is that of all heads.
struct UlyssesCell {
  std::int64_t tokens = 0;
  int heads = 0;
  int ranks = 1;
};

inline constexpr int ulysses_head_dim = 128;

/// A shape as the command line states it.
struct UlyssesShape {
  std::int64_t tokens = 0;
  int heads = 0;
  bool operator==(const UlyssesShape&) const = default;
};

/// The choice "table" keeps only shapes whose heads divide evenly among the ranks.
struct UlyssesShapeChoice {
  bool is_table = false;
  std::vector<UlyssesShape> shapes;
};

/// "table" or "TOKENSxHEADS,..." with heads of all ranks together. InputError for anything else.
[[nodiscard]] UlyssesShapeChoice parse_ulysses_shapes(std::string_view text);

/// Cells of these shapes on so many ranks, none twice. InputError if a shape breaks a rule or leaves a rank without
/// tokens, or nothing is left to measure.
[[nodiscard]] std::vector<UlyssesCell> make_ulysses_cells(const UlyssesShapeChoice& choice, int ranks);

[[nodiscard]] std::int64_t hidden_of(const UlyssesCell& cell);
[[nodiscard]] std::int64_t own_tokens(const UlyssesCell& cell, int rank);

/// Q, K and V of all heads; on several ranks the product goes to the ranks of the heads. Its parts are 0, 1 and 2.
[[nodiscard]] GemmCell projection_of(const UlyssesCell& cell);
/// The same product for a rank's own tokens, whose result stays on that rank.
[[nodiscard]] gemm::Problem local_projection_of(const UlyssesCell& cell, int rank);
/// On several ranks results go to the owners of their rows; `problem_of_rank` is what a rank computes.
[[nodiscard]] AttentionCell attention_of(const UlyssesCell& cell);
/// The output projection of a rank's own tokens.
[[nodiscard]] gemm::Problem output_projection_of(const UlyssesCell& cell, int rank);

/// As the command line states it: "16384x24".
[[nodiscard]] std::string shape_text(const UlyssesCell& cell);

/// "ulysses 16384x24 on 2 ranks".
[[nodiscard]] std::string cell_name(const UlyssesCell& cell);

}  // namespace xstage::bench
