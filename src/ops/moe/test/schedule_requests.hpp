#pragma once
// Counts for the tests of MoE schedules, from the generator of routings that benchmarks and simulation use.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "ops/moe/bench/routing.hpp"
#include "ops/moe/bench/routing_counts.hpp"
#include "ops/moe/problem.hpp"
#include "ops/moe/test/schedule_random.hpp"
#include "xstage/peer_view.hpp"

namespace xstage {

/// A random valid request with at most `most_choices` choices on all ranks together.
inline moe::RoutingRequest random_request(MoeRandom& random, int most_choices) {
  moe::RoutingRequest request;
  request.world = random.between(1, max_world);
  request.experts_per_rank =
      random.between(0, 2) == 0 ? random.between(1, moe::most_experts_per_rank) : random.between(1, 12);
  request.top_k = random.between(1, std::min(moe::most_top_k, request.world * request.experts_per_rank));
  if (random.between(0, 1) == 0) {
    request.remote_share = moe::Share{request.world == 1 ? 0 : random.between(0, 8), 8};
    // One rank has experts for all choices of a token, so that every share is possible.
    request.top_k = std::min(request.top_k, request.experts_per_rank);
  }
  const int most_tokens = random.between(0, 7) == 0 ? 2 : most_choices / (request.world * request.top_k);
  for (int rank = 0; rank < request.world; ++rank) {
    request.tokens.push_back(random.between(0, 3) == 0 ? 0 : random.between(0, most_tokens));
  }
  constexpr moe::Skew skews[] = {moe::Skew::balanced, moe::Skew::zipf, moe::Skew::one_expert};
  request.skew = skews[random.between(0, 2)];
  request.masked_tokens = random.between(0, 2) == 0 ? moe::Share{random.between(0, 4), 4} : moe::Share{0, 1};
  request.masked_choices = random.between(0, 3) == 0 ? moe::Share{random.between(0, 4), 4} : moe::Share{0, 1};
  request.seed = random.bits()();
  return request;
}

/// Tokens of each expert of a rank, as its schedule gets them.
inline std::vector<std::int32_t> counts_of(const moe::Routing& routing, int rank) {
  const std::vector<std::int64_t> loads = expert_loads(routing);
  const auto first = loads.begin() + static_cast<std::ptrdiff_t>(rank) * routing.experts_per_rank;
  std::vector<std::int32_t> counts(static_cast<std::size_t>(routing.experts_per_rank));
  std::transform(first, first + routing.experts_per_rank, counts.begin(),
                 [](std::int64_t load) { return static_cast<std::int32_t>(load); });
  return counts;
}

/// The rank whose experts have most to do.
inline int fullest_rank(const moe::Routing& routing) {
  int fullest = 0;
  std::int64_t most = -1;
  for (int rank = 0; rank < routing.world; ++rank) {
    const std::vector<std::int32_t> counts = counts_of(routing, rank);
    const std::int64_t rows = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
    fullest = rows > most ? rank : fullest;
    most = std::max(rows, most);
  }
  return fullest;
}

inline std::string describe(const moe::RoutingRequest& request) {
  std::string text = std::string(name_of(request.skew)) + ", top " + std::to_string(request.top_k) + " of " +
                     std::to_string(request.world) + " x " + std::to_string(request.experts_per_rank) +
                     " experts, seed " + std::to_string(request.seed) + ", tokens";
  for (const std::int64_t tokens : request.tokens) {
    text += " " + std::to_string(tokens);
  }
  return text;
}

}  // namespace xstage
