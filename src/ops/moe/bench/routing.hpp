#pragma once
// Made-up routings, which say which experts tokens choose, for tests, benchmarks and simulation. The same request gives
// the same routing on every machine: it uses only integers, and floating-point operations that IEEE 754 rounds
// correctly.

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "xstage/moe.hpp"

namespace xstage::moe {

enum class Skew {
  balanced,    // all experts have the same number of choices, give or take one
  zipf,        // popularity falls with a power of its order so that the hottest has 4 times the mean
  one_expert,  // all tokens choose the same top_k experts: one and those next to it, on its rank as far as they are
};

[[nodiscard]] Skew parse_skew(std::string_view name);  // "balanced", "zipf", "one_expert"; InputError for others
[[nodiscard]] std::string_view name_of(Skew skew);

/// The fraction part / of.
struct Share {
  std::int64_t part = 0;
  std::int64_t of = 1;
};

struct RoutingRequest {
  int world = 1;
  int experts_per_rank = 0;
  int top_k = 0;
  std::vector<std::int64_t> tokens;  // of each rank
  Skew skew = Skew::balanced;
  // Share of a rank's choices that go to experts on other ranks. Each token has as many of them as the share says, or
  // one less or one more, and all of a rank's tokens together have as many as it says, rounded down. Without it the
  // share is about (world - 1) / world. Between ranks with different numbers of tokens `balanced` then holds on each
  // rank alone. A token has an expert only once, so a share may hold the hottest expert of `zipf` below 4 times the
  // mean.
  std::optional<Share> remote_share;
  Share masked_tokens;   // probability that a token chooses no expert at all. The other tokens are balanced
  Share masked_choices;  // probability that a single choice is struck out afterwards
  std::uint64_t seed = 1;
};

/// Experts and weights, each [tokens, top_k]. A token's experts are distinct, and those struck out are -1 with weight
/// 0. The others' weights are multiples of 2^-24 above zero, so that their sum is exactly 1 in fp32, in any order.
struct RankRouting {
  std::int64_t tokens = 0;
  std::vector<std::int32_t> experts;
  std::vector<float> weights;
};

struct Routing {
  int world = 1;
  int experts_per_rank = 0;
  int top_k = 0;
  std::vector<RankRouting> ranks;
};

/// Throws InputError for a request that breaks a rule.
[[nodiscard]] Routing make_routing(const RoutingRequest& request);

/// The request with a problem's sizes and the same number of tokens on every rank.
[[nodiscard]] RoutingRequest request_for(const Problem& problem, int world, std::int64_t tokens);

}  // namespace xstage::moe
