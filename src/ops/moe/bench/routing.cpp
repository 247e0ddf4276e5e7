#include "ops/moe/bench/routing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <utility>

#include "ops/moe/bench/expert_choice.hpp"
#include "ops/moe/bench/random_stream.hpp"
#include "ops/moe/problem.hpp"
#include "xstage/error.hpp"

namespace xstage::moe {

namespace {

constexpr std::array<std::pair<std::string_view, Skew>, 3> skew_names{{
    {"balanced", Skew::balanced},
    {"zipf", Skew::zipf},
    {"one_expert", Skew::one_expert},
}};

constexpr std::int64_t greatest_tokens = std::int64_t{1} << 24U;
constexpr std::int64_t greatest_denominator = 1'000'000;

enum RoutingStreams : std::uint64_t { token_masks, choice_masks, slots, weights };

void require(bool holds, const std::string& message) {
  if (!holds) {
    throw InputError(message);
  }
}

void check_range(std::string_view name, std::int64_t value, std::int64_t least, std::int64_t greatest) {
  require(value >= least && value <= greatest,
          fmt::format("{} is {}: it must be between {} and {}", name, value, least, greatest));
}

void check_share(std::string_view name, const Share& share) {
  require(share.of >= 1 && share.of <= greatest_denominator && share.part >= 0 && share.part <= share.of,
          fmt::format("{} is {}/{}: it must be between 0 and 1, with a denominator between 1 and {}", name, share.part,
                      share.of, greatest_denominator));
}

/// Checks that the share gives no token so many remote or local choices that an expert would occur twice.
void check_remote_share(const RoutingRequest& request) {
  const Share& share = *request.remote_share;
  check_share("remote_share", share);
  const std::int64_t most_remote = (request.top_k * share.part + share.of - 1) / share.of;
  const std::int64_t most_local = (request.top_k * (share.of - share.part) + share.of - 1) / share.of;
  const auto check = [&](std::string_view where, std::int64_t choices, int experts) {
    require(choices <= experts,
            fmt::format("remote_share is {}/{}: with top_k {} tokens choose up to {} experts on {}, where there are {}",
                        share.part, share.of, request.top_k, choices, where, experts));
  };
  check("other ranks", most_remote, (request.world - 1) * request.experts_per_rank);
  check("their own rank", most_local, request.experts_per_rank);
}

void check_request(const RoutingRequest& request) {
  check_range("world", request.world, 1, max_world);
  check_range("experts_per_rank", request.experts_per_rank, 1, most_experts_per_rank);
  check_range("top_k", request.top_k, 1, most_top_k);
  const int experts = request.world * request.experts_per_rank;
  require(request.top_k <= experts, fmt::format("top_k is {}: there are {} experts", request.top_k, experts));
  require(request.tokens.size() == static_cast<std::size_t>(request.world),
          fmt::format("{} numbers of tokens: there are {} ranks", request.tokens.size(), request.world));
  for (const std::int64_t tokens : request.tokens) {
    check_range("tokens", tokens, 0, greatest_tokens);
  }
  check_share("masked_tokens", request.masked_tokens);
  check_share("masked_choices", request.masked_choices);
  if (request.remote_share) {
    check_remote_share(request);
  }
}

bool happens(RandomStream& random, const Share& share) {
  return static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(share.of))) < share.part;
}

/// Number of remote ones among `choices` choices.
std::int64_t remote_of(std::int64_t choices, const Share& share) { return choices * share.part / share.of; }

class RoutingMaker {
 public:
  explicit RoutingMaker(const RoutingRequest& request)
      : request_(request),
        chooser_(make_expert_chooser(request)),
        token_masks_(request.seed, token_masks),
        choice_masks_(request.seed, choice_masks),
        slots_(request.seed, slots),
        weights_(request.seed, weights) {}

  RankRouting make(int rank) {
    RankRouting routing;
    routing.tokens = request_.tokens[static_cast<std::size_t>(rank)];
    std::int64_t choices = 0;  // choices of the rank's tokens so far, without masked ones
    for (std::int64_t token = 0; token < routing.tokens; ++token) {
      std::vector<std::int32_t> experts;
      if (happens(token_masks_, request_.masked_tokens)) {
        experts.assign(static_cast<std::size_t>(request_.top_k), no_expert);
      } else {
        experts = experts_of_token(rank, choices);
        choices += request_.top_k;
      }
      const std::vector<float> weights = weights_of(experts);
      routing.experts.insert(routing.experts.end(), experts.begin(), experts.end());
      routing.weights.insert(routing.weights.end(), weights.begin(), weights.end());
    }
    return routing;
  }

 private:
  std::vector<std::int32_t> experts_of_token(int rank, std::int64_t choices_before) {
    std::vector<std::int32_t> experts;
    if (request_.remote_share) {
      const auto remote = static_cast<int>(remote_of(choices_before + request_.top_k, *request_.remote_share) -
                                           remote_of(choices_before, *request_.remote_share));
      chooser_->choose(rank, Side::other, remote, experts);
      chooser_->choose(rank, Side::own, request_.top_k - remote, experts);
    } else {
      chooser_->choose(rank, Side::any, request_.top_k, experts);
    }
    slots_.shuffle(experts);  // the place among a token's choices says nothing about the expert
    for (std::int32_t& expert : experts) {
      expert = happens(choice_masks_, request_.masked_choices) ? no_expert : expert;
    }
    return experts;
  }

  /// Weights are random multiples of 2^-24 with sum 1, which fp32 holds and adds exactly.
  std::vector<float> weights_of(const std::vector<std::int32_t>& experts) {
    constexpr std::uint64_t whole = std::uint64_t{1} << 24U;
    std::vector<std::uint64_t> parts;
    std::uint64_t sum = 0;
    for (const std::int32_t expert : experts) {
      parts.push_back(expert == no_expert ? 0 : 1 + weights_.below(65536));
      sum += parts.back();
    }
    std::uint64_t given = 0;
    for (std::uint64_t& part : parts) {
      part = sum == 0 ? 0 : part * whole / sum;
      given += part;
    }
    if (sum > 0) {
      *std::max_element(parts.begin(), parts.end()) += whole - given;
    }
    std::vector<float> result(parts.size());
    std::transform(parts.begin(), parts.end(), result.begin(),
                   [](std::uint64_t part) { return std::ldexp(static_cast<float>(part), -24); });
    return result;
  }

  const RoutingRequest& request_;
  std::unique_ptr<ExpertChooser> chooser_;
  RandomStream token_masks_;
  RandomStream choice_masks_;
  RandomStream slots_;
  RandomStream weights_;
};

}  // namespace

Skew parse_skew(std::string_view name) {
  const auto* const found =
      std::find_if(skew_names.begin(), skew_names.end(), [&](const auto& entry) { return entry.first == name; });
  require(found != skew_names.end(), fmt::format("routing '{}': one of balanced, zipf, one_expert", name));
  return found->second;
}

std::string_view name_of(Skew skew) {
  const auto* const found =
      std::find_if(skew_names.begin(), skew_names.end(), [&](const auto& entry) { return entry.second == skew; });
  return found->first;
}

Routing make_routing(const RoutingRequest& request) {
  check_request(request);
  Routing routing{request.world, request.experts_per_rank, request.top_k, {}};
  RoutingMaker maker(request);
  for (int rank = 0; rank < request.world; ++rank) {
    routing.ranks.push_back(maker.make(rank));
  }
  return routing;
}

RoutingRequest request_for(const Problem& problem, int world, std::int64_t tokens) {
  RoutingRequest request;
  request.world = world;
  request.experts_per_rank = problem.experts_per_rank;
  request.top_k = problem.top_k;
  request.tokens.assign(static_cast<std::size_t>(std::max(world, 0)), tokens);
  return request;
}

}  // namespace xstage::moe
