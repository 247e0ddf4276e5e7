// The routing generator: what every request promises, over many of them, and that it is the same everywhere.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "ops/moe/bench/routing.hpp"
#include "ops/moe/bench/routing_counts.hpp"
#include "ops/moe/test/routing_request.hpp"
#include "xstage/error.hpp"

namespace xstage::moe::routing_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(MoeRouting, EveryRequestIsKept) {
  for (const Skew skew : {Skew::balanced, Skew::zipf, Skew::one_expert}) {
    for (const int world : {1, 2, 3, 8}) {
      for (const int experts : {1, 2, 16, 31, 256}) {
        for (const int top_k : {1, 2, 6, 16}) {
          if (top_k > world * experts) {
            continue;
          }
          std::vector<std::int64_t> tokens{37, 0, 5, 64, 1, 0, 12, 9};
          tokens.resize(static_cast<std::size_t>(world));
          RoutingRequest request = request_of(experts, top_k, tokens, skew);
          for (const Share masked : {Share{0, 1}, Share{1, 3}}) {
            request.masked_tokens = request.masked_choices = masked;
            const Routing routing = make_routing(request);
            SCOPED_TRACE(std::string(name_of(skew)) + ", " + std::to_string(world) + " ranks of " +
                         std::to_string(experts) + ", top " + std::to_string(top_k));
            std::int64_t choices = 0;
            ASSERT_EQ(routing.ranks.size(), tokens.size());
            for (std::size_t rank = 0; rank < tokens.size(); ++rank) {
              EXPECT_EQ(routing.ranks[rank].tokens, tokens[rank]);
              choices += check_tokens_of(routing.ranks[rank], request);
            }
            EXPECT_EQ(sum(expert_loads(routing)), choices);
          }
        }
      }
    }
  }
}

// ---- masks

TEST(MoeRouting, MaskedTokensChooseNothing) {
  RoutingRequest request = request_of(16, 4, {4000, 0}, Skew::zipf);
  request.masked_tokens = {1, 4};
  const Routing routing = make_routing(request);
  std::int64_t masked = 0;
  for (std::size_t token = 0; token < 4000; ++token) {
    const auto begin = routing.ranks[0].experts.begin() + static_cast<std::ptrdiff_t>(4 * token);
    const auto struck = std::count(begin, begin + 4, no_expert);
    EXPECT_TRUE(struck == 0 || struck == 4);
    masked += struck / 4;
  }
  EXPECT_NEAR(static_cast<double>(masked), 1000, 120);
  request.masked_tokens = {1, 1};
  EXPECT_EQ(sum(expert_loads(make_routing(request))), 0);
}

TEST(MoeRouting, MaskedChoicesAreStruckOutOneByOne) {
  RoutingRequest request = request_of(16, 4, {4000, 0}, Skew::balanced);
  const Routing all = make_routing(request);
  request.masked_choices = {1, 4};
  const Routing struck = make_routing(request);
  EXPECT_NEAR(static_cast<double>(sum(expert_loads(struck))), 12000, 250);
  std::size_t others = 0;
  for (std::size_t index = 0; index < all.ranks[0].experts.size(); ++index) {
    const std::int32_t expert = struck.ranks[0].experts[index];
    others += expert != no_expert && expert != all.ranks[0].experts[index] ? 1U : 0U;
  }
  EXPECT_EQ(others, 0U) << "the other choices stay as they are";
}

// ---- the same everywhere

std::uint64_t fingerprint(const Routing& routing) {
  std::uint64_t hash = 0xCBF29CE484222325ULL;  // FNV-1a
  const auto add = [&](std::uint32_t word) { hash = (hash ^ word) * 0x100000001B3ULL; };
  for (const RankRouting& of_rank : routing.ranks) {
    for (std::size_t index = 0; index < of_rank.experts.size(); ++index) {
      add(static_cast<std::uint32_t>(of_rank.experts[index]));
      add(std::bit_cast<std::uint32_t>(of_rank.weights[index]));
    }
  }
  return hash;
}

TEST(MoeRouting, IsTheSameEverywhere) {
  // Results that were measured with a routing are compared with later ones: if these numbers change, say so there.
  std::vector<std::uint64_t> hashes;
  for (const Skew skew : {Skew::balanced, Skew::zipf, Skew::one_expert}) {
    RoutingRequest request = request_of(16, 8, {100, 77}, skew);
    hashes.push_back(fingerprint(make_routing(request)));
    EXPECT_EQ(fingerprint(make_routing(request)), hashes.back());
    request.seed = 2;
    EXPECT_NE(fingerprint(make_routing(request)), hashes.back());
    request.remote_share = Share{7, 8};
    request.masked_tokens = {1, 10};
    request.masked_choices = {1, 10};
    hashes.push_back(fingerprint(make_routing(request)));
  }
  EXPECT_THAT(hashes, ElementsAre(3792703590049405404U, 12449069504369607683U, 7543071197321527227U,
                                  15818808444964724485U, 4473691641448171475U, 9364878348508230483U));
}

// ---- rules

std::string refusal(const std::function<void(RoutingRequest&)>& change) {
  RoutingRequest request = request_of(16, 8, {10, 10}, Skew::balanced);
  change(request);
  try {
    static_cast<void>(make_routing(request));
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(MoeRouting, RequestsThatBreakARuleAreRefused) {
  using Request = RoutingRequest;
  EXPECT_EQ(refusal([](Request&) {}), "");
  EXPECT_THAT(refusal([](Request& request) { request.world = 9; }),
              HasSubstr("world is 9: it must be between 1 and 8"));
  EXPECT_THAT(refusal([](Request& request) { request.experts_per_rank = 257; }), HasSubstr("experts_per_rank is 257"));
  EXPECT_THAT(refusal([](Request& request) { request.top_k = 17; }), HasSubstr("top_k is 17: it must be between 1"));
  EXPECT_THAT(refusal([](Request& request) { request.experts_per_rank = 3; }),
              HasSubstr("top_k is 8: there are 6 experts"));
  EXPECT_THAT(refusal([](Request& request) { request.tokens.pop_back(); }),
              HasSubstr("1 numbers of tokens: there are 2 ranks"));
  EXPECT_THAT(refusal([](Request& request) { request.tokens[1] = -1; }), HasSubstr("tokens is -1"));
  EXPECT_THAT(refusal([](Request& request) { request.masked_tokens = {3, 2}; }), HasSubstr("masked_tokens is 3/2"));
  EXPECT_THAT(refusal([](Request& request) { request.masked_choices = {0, 0}; }), HasSubstr("masked_choices is 0/0"));
  EXPECT_THAT(refusal([](Request& request) {
                request.remote_share = Share{-1, 2};
              }),
              HasSubstr("remote_share is -1/2"));
  EXPECT_THAT(refusal([](Request& request) {
                request.experts_per_rank = 6;
                request.remote_share = Share{7, 8};
              }),
              HasSubstr("with top_k 8 tokens choose up to 7 experts on other ranks, where there are 6"));
  EXPECT_THAT(refusal([](Request& request) {
                request.world = 1;
                request.tokens = {10};
                request.remote_share = Share{1, 8};
              }),
              HasSubstr("up to 1 experts on other ranks, where there are 0"));
  EXPECT_THAT(refusal([](Request& request) {
                request.experts_per_rank = 7;
                request.remote_share = Share{0, 1};
              }),
              HasSubstr("up to 8 experts on their own rank, where there are 7"));
}

TEST(MoeRouting, SkewsHaveNames) {
  for (const Skew skew : {Skew::balanced, Skew::zipf, Skew::one_expert}) {
    EXPECT_EQ(parse_skew(name_of(skew)), skew);
  }
  EXPECT_THROW(static_cast<void>(parse_skew("Zipf")), InputError);
}

}  // namespace
}  // namespace xstage::moe::routing_test
