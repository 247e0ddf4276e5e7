#pragma once
// The work that a routing gives to ranks: the rows of each rank, and the rows that go to peers.

#include <cstdint>
#include <vector>

#include "ops/moe/bench/routing.hpp"

namespace xstage::moe {

/// One choice of one token.
struct Choice {
  int rank = 0;  // whose token
  std::int64_t token = 0;
  int choice = 0;
  bool operator==(const Choice&) const = default;
};

/// Number of choices of each expert of all ranks.
[[nodiscard]] std::vector<std::int64_t> expert_loads(const Routing& routing);

/// The choices that dispatch brings to each expert of `rank`, ordered by source rank, token and choice, as dispatch
/// puts them into the expert's rows.
[[nodiscard]] std::vector<std::vector<Choice>> dispatched(const Routing& routing, int rank);

/// Rows that cross from one rank to another.
struct Traffic {
  std::int64_t choices = 0;       // of the rank's tokens
  std::int64_t remote = 0;        // of these, choices of experts elsewhere
  std::int64_t copies = 0;        // pairs of a token and another rank that it needs: rows that dispatch sends
  std::int64_t returned = 0;      // choices of other ranks' tokens: rows of combine that the rank sends back
  std::int64_t partial_sums = 0;  // tokens of other ranks that need the rank: rows, if each is added up there
};
[[nodiscard]] Traffic traffic_of(const Routing& routing, int rank);

}  // namespace xstage::moe
