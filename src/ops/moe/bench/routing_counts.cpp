#include "ops/moe/bench/routing_counts.hpp"

#include <algorithm>

namespace xstage::moe {

namespace {

/// Calls visit(choice, expert) for all choices that are not struck out, by rank, token and choice.
template <typename Visit>
void each_choice(const Routing& routing, const Visit& visit) {
  for (int rank = 0; rank < routing.world; ++rank) {
    const RankRouting& of_rank = routing.ranks[static_cast<std::size_t>(rank)];
    std::size_t index = 0;
    for (std::int64_t token = 0; token < of_rank.tokens; ++token) {
      for (int choice = 0; choice < routing.top_k; ++choice, ++index) {
        if (of_rank.experts[index] != no_expert) {
          visit(Choice{rank, token, choice}, of_rank.experts[index]);
        }
      }
    }
  }
}

}  // namespace

std::vector<std::int64_t> expert_loads(const Routing& routing) {
  std::vector<std::int64_t> loads(static_cast<std::size_t>(routing.world * routing.experts_per_rank));
  each_choice(routing, [&](const Choice&, std::int32_t expert) { ++loads[static_cast<std::size_t>(expert)]; });
  return loads;
}

std::vector<std::vector<Choice>> dispatched(const Routing& routing, int rank) {
  std::vector<std::vector<Choice>> rows(static_cast<std::size_t>(routing.experts_per_rank));
  each_choice(routing, [&](const Choice& choice, std::int32_t expert) {
    if (expert / routing.experts_per_rank == rank) {
      rows[static_cast<std::size_t>(expert % routing.experts_per_rank)].push_back(choice);
    }
  });
  return rows;
}

Traffic traffic_of(const Routing& routing, int rank) {
  Traffic traffic;
  std::vector<std::int64_t> last_token(static_cast<std::size_t>(routing.world), -1);  // last token that needs the rank
  Choice last_served{-1, -1, 0};  // the last token of another rank that needs this one
  each_choice(routing, [&](const Choice& choice, std::int32_t expert) {
    const int place = expert / routing.experts_per_rank;
    traffic.choices += choice.rank == rank ? 1 : 0;
    if (place == choice.rank) {
      return;
    }
    if (place == rank) {
      ++traffic.returned;
      traffic.partial_sums += last_served.rank == choice.rank && last_served.token == choice.token ? 0 : 1;
      last_served = choice;
    }
    if (choice.rank == rank) {
      ++traffic.remote;
      std::int64_t& last = last_token[static_cast<std::size_t>(place)];
      traffic.copies += last == choice.token ? 0 : 1;
      last = choice.token;
    }
  });
  return traffic;
}

}  // namespace xstage::moe
