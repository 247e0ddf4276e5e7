#pragma once
// What the tests of MoE schedules share: counts of tokens, and schedules over them. Counts come from the
// generator of routings, which gives what routers give, and at random, which gives the rest.

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "ops/moe/expert_wave.hpp"
#include "ops/moe/interleaved.hpp"
#include "ops/moe/test/schedule_random.hpp"
#include "ops/moe/test/schedule_requests.hpp"

namespace xstage {

/// Tokens of each local expert.
inline std::vector<std::int32_t> random_counts(MoeRandom& random, int experts, int tokens) {
  std::vector<std::int32_t> counts(static_cast<std::size_t>(experts), 0);
  const auto any = [&] { return static_cast<std::size_t>(random.between(0, experts - 1)); };
  switch (random.between(0, 4)) {
    case 0:  // balanced
      for (auto& count : counts) {
        count = tokens / experts;
      }
      break;
    case 1:  // one takes all
      counts[any()] = tokens;
      break;
    case 2: {  // Zipf, in any order
      double sum = 0;
      for (int rank = 1; rank <= experts; ++rank) {
        sum += 1.0 / rank;
      }
      for (int rank = 1; rank <= experts; ++rank) {
        counts[any()] += static_cast<std::int32_t>(std::lround(tokens / (rank * sum)));
      }
      break;
    }
    case 3:  // each token where it likes; few tokens leave experts without any
      for (int token = 0; token < tokens; ++token) {
        ++counts[any()];
      }
      break;
    default:  // none for most
      for (int times = random.between(0, 3); times > 0; --times) {
        counts[any()] += random.between(0, tokens);
      }
  }
  return counts;
}

/// A schedule with the arrays that it points into.
template <typename Schedule>
struct MoeCase {
  std::vector<std::int32_t> counts;
  std::vector<std::int32_t> first_block;
  std::int32_t parameter;  // experts per wave, or the lead
  Schedule schedule{};

  MoeCase(std::vector<std::int32_t> tokens, const schedule::MoeTiling& tiling, std::int32_t with_parameter)
      : counts(std::move(tokens)), first_block(counts.size() + 1), parameter(with_parameter) {
    const auto experts = static_cast<std::int32_t>(counts.size());
    schedule::MoeBlocks::sum(counts.data(), experts, tiling.block_rows, first_block.data());
    schedule::MoeBlocks blocks{};
    blocks.start(counts.data(), first_block.data(), experts);
    schedule.start(tiling, blocks, parameter);
  }
  MoeCase(const MoeCase&) = delete;
  MoeCase& operator=(const MoeCase&) = delete;

  [[nodiscard]] std::int32_t blocks() const { return first_block.back(); }
  [[nodiscard]] std::string describe() const {
    std::string text =
        std::to_string(counts.size()) + " experts, " +
        std::to_string(std::accumulate(counts.begin(), counts.end(), 0)) + " tokens in " + std::to_string(blocks()) +
        " blocks, tiles " + std::to_string(schedule.tiling().linear1_tiles.value()) + " and " +
        std::to_string(schedule.tiling().linear2_tiles.value()) + ", parameter " + std::to_string(parameter);
    return text;
  }
};

inline schedule::MoeTiling moe_tiling(std::int32_t block_rows, std::int32_t linear1, std::int32_t linear2) {
  schedule::MoeTiling tiling{};
  tiling.start(block_rows, linear1, linear2);
  return tiling;
}

/// Calls `check(counts, random)` for the ranks with most to do and for any ranks of random requests.
template <typename Check>
void for_requested_counts(std::uint32_t seed, int requests, int most_choices, Check&& check) {
  MoeRandom random(seed);
  for (int round = 0; round < requests; ++round) {
    const moe::RoutingRequest request = random_request(random, most_choices);
    const moe::Routing routing = make_routing(request);
    for (const int rank : {fullest_rank(routing), random.between(0, request.world - 1)}) {
      SCOPED_TRACE(describe(request) + ": rank " + std::to_string(rank));
      check(counts_of(routing, rank), random);
      if (testing::Test::HasFailure()) {
        return;
      }
    }
  }
}

/// Calls `check(counts, random)` for `rounds` counts that are made up here and for as many of random requests.
template <typename Check>
void for_counts(std::uint32_t seed, int rounds, int most_tokens, Check&& check) {
  MoeRandom random(seed);
  for (int round = 0; round < rounds && !testing::Test::HasFailure(); ++round) {
    const int experts = round % 3 == 0 ? random.between(1, 3) : random.between(1, 256);
    const int tokens = round % 7 == 0 ? random.between(0, 20) : random.between(0, most_tokens);
    check(random_counts(random, experts, tokens), random);
  }
  for_requested_counts(seed, testing::Test::HasFailure() ? 0 : rounds / 2, most_tokens, check);
}

/// Runs `check` with schedules over counts of both kinds.
template <typename Schedule, typename Check>
void for_random_routings(std::uint32_t seed, int rounds, int most_tokens, Check&& check) {
  for_counts(seed, rounds, most_tokens, [&](const std::vector<std::int32_t>& counts, MoeRandom& random) {
    const std::int32_t block_rows = 16 << random.between(0, 3);
    const std::int32_t linear1 = random.between(1, 20);
    const std::int32_t linear2 = random.between(1, 30);
    const MoeCase<Schedule> test(counts, moe_tiling(block_rows, linear1, linear2), random.between(1, 24));
    SCOPED_TRACE(test.describe());
    check(test, random);
  });
}

}  // namespace xstage
