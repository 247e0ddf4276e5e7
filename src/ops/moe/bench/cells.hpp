#pragma once
// The cells of `xstage bench moe`. A cell is one model shape with a number of tokens and a routing; its variants are
// measured against each other. Host code without CUDA.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ops/moe/bench/routing.hpp"
#include "ops/moe/bench/shapes.hpp"

namespace xstage::bench {

struct MoeCell {
  moe::Shape shape{};
  std::int64_t tokens = 0;  // of each rank
  moe::Skew skew = moe::Skew::balanced;
  moe::Share remote_share;  // in lowest terms
  int ranks = 1;
};

/// Choice of the command line: every shape with every number of tokens, routing and share.
struct MoeChoice {
  std::vector<moe::Shape> shapes;
  std::vector<std::int64_t> tokens;
  std::vector<moe::Skew> skews;
  std::vector<moe::Share> remote_shares;  // in lowest terms; 0/0: natural_share of the ranks
};

/// Parses "all" or names of moe::shapes. This function and those below return each entry once, in the order of the
/// list, and throw InputError for anything else.
[[nodiscard]] std::vector<moe::Shape> parse_moe_shapes(std::string_view text);
/// Parses numbers, and "matrix", "decode" and "published" for the lists of ops/moe/bench/shapes.hpp.
[[nodiscard]] std::vector<std::int64_t> parse_moe_tokens(std::string_view text);
/// Parses "balanced", "skewed" and "one_expert".
[[nodiscard]] std::vector<moe::Skew> parse_moe_routings(std::string_view text);
/// Parses "natural" and fractions such as "7/8".
[[nodiscard]] std::vector<moe::Share> parse_remote_shares(std::string_view text);

/// Share of remote choices for a router that does not know ranks.
[[nodiscard]] moe::Share natural_share(int ranks);

/// Cells on `ranks` ranks, without duplicates. InputError if one breaks a rule.
[[nodiscard]] std::vector<MoeCell> make_moe_cells(const MoeChoice& choice, int ranks);

/// The problem of a cell; its heap holds the cell's tokens and no more.
[[nodiscard]] moe::Problem problem_of(const MoeCell& cell);

/// The request for a cell's routing. If the remote share equals natural_share, experts are drawn without regard to it.
[[nodiscard]] moe::RoutingRequest routing_request(const MoeCell& cell);

/// Names of the command line and of result files.
[[nodiscard]] std::string_view routing_name(moe::Skew skew);
[[nodiscard]] std::string share_text(const moe::Share& share);  // "1/2"

/// "moe GLM-5, 4096 tokens, balanced, remote share 1/2, on 2 ranks".
[[nodiscard]] std::string cell_name(const MoeCell& cell);

}  // namespace xstage::bench
