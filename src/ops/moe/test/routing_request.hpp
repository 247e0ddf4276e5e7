#pragma once
// Requests for made-up routings, and checks of the resulting routings.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "ops/moe/bench/routing.hpp"

namespace xstage::moe {

inline RoutingRequest request_of(int experts_per_rank, int top_k, std::vector<std::int64_t> tokens, Skew skew,
                                 std::optional<Share> remote_share = std::nullopt) {
  RoutingRequest request;
  request.world = static_cast<int>(tokens.size());
  request.experts_per_rank = experts_per_rank;
  request.top_k = top_k;
  request.tokens = std::move(tokens);
  request.skew = skew;
  request.remote_share = remote_share;
  return request;
}

inline std::int64_t largest(const std::vector<std::int64_t>& values) {
  return *std::max_element(values.begin(), values.end());
}
inline std::int64_t least(const std::vector<std::int64_t>& values) {
  return *std::min_element(values.begin(), values.end());
}
inline std::int64_t sum(const std::vector<std::int64_t>& values) {
  return std::accumulate(values.begin(), values.end(), std::int64_t{0});
}

/// Checks that each token's experts are distinct and exist, and that weights are as promised. Returns the number of
/// choices that are not struck out.
inline std::int64_t check_tokens_of(const RankRouting& routing, const RoutingRequest& request) {
  const auto top_k = static_cast<std::size_t>(request.top_k);
  EXPECT_EQ(routing.experts.size(), static_cast<std::size_t>(routing.tokens) * top_k);
  EXPECT_EQ(routing.weights.size(), routing.experts.size());
  std::int64_t choices = 0;
  int mistakes = 0;
  for (std::size_t begin = 0; begin < routing.experts.size(); begin += top_k) {
    std::set<std::int32_t> experts;
    float forwards = 0;
    float backwards = 0;
    std::size_t masked = 0;
    for (std::size_t choice = 0; choice < top_k; ++choice) {
      const std::int32_t expert = routing.experts[begin + choice];
      const float weight = routing.weights[begin + choice];
      masked += expert == no_expert ? 1 : 0;
      mistakes += expert < no_expert || expert >= request.world * request.experts_per_rank ? 1 : 0;
      mistakes += expert != no_expert && !experts.insert(expert).second ? 1 : 0;
      mistakes += (expert == no_expert) == (weight > 0) ? 1 : 0;
      forwards += weight;
      backwards += routing.weights[begin + top_k - 1 - choice];
    }
    const float whole = masked == top_k ? 0 : 1;
    mistakes += forwards != whole || backwards != whole ? 1 : 0;
    choices += static_cast<std::int64_t>(top_k - masked);
  }
  EXPECT_EQ(mistakes, 0);
  return choices;
}

}  // namespace xstage::moe
