// Sizes of the buffers of a mixture-of-experts layer in the symmetric heap: every routing fits, and little is wasted.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "ops/moe/bench/routing.hpp"
#include "ops/moe/bench/routing_counts.hpp"
#include "ops/moe/device/parameters.hpp"
#include "ops/moe/heap.hpp"
#include "ops/moe/problem.hpp"
#include "xstage/error.hpp"

namespace xstage::moe::heap_test {
namespace {

Problem valid() {
  Problem problem;
  problem.hidden = 2048;
  problem.intermediate = 768;
  problem.experts_per_rank = 16;
  problem.top_k = 8;
  problem.most_tokens = 1024;
  return problem;
}

TEST(MoeHeap, SectionsOfASmallLayer) {
  Problem problem;
  problem.hidden = 128;
  problem.intermediate = 64;
  problem.experts_per_rank = 4;
  problem.top_k = 2;
  problem.most_tokens = 100;
  // 3 ranks * 100 tokens * 2 choices, and up to 127 rows of gap behind each of 4 experts: 8 whole units of 128.
  EXPECT_EQ(most_rows(problem, 3), 1024);
  const HeapSections sections = heap_sections(problem, 3);
  EXPECT_EQ(sections.tokens, 1024U * 128 * 2);
  EXPECT_EQ(sections.counts, 1024U);      // 3 * (12 + 4) numbers of 8 bytes
  EXPECT_EQ(sections.routes, 5U * 1024);  // 3 * 100 * 2 routes of 8 bytes
  EXPECT_EQ(sections.slots, 50U * 1024);  // 100 * 2 rows of 256 bytes
  EXPECT_EQ(heap_bytes(problem, 3), sections.pad + 262144 + 1024 + 5120 + 51200);
  EXPECT_THROW(static_cast<void>(heap_bytes(problem, 9)), InputError);
}

TEST(MoeHeap, CountsOfTheMostExperts) {
  Problem problem = valid();
  problem.experts_per_rank = 256;
  EXPECT_EQ(heap_sections(problem, 8).counts, 129U * 1024);  // 8 * (8 * 256 + 4) numbers of 8 bytes
}

TEST(MoeHeap, LargeLayersNeedMoreThan32Bits) {
  Problem problem = valid();
  problem.hidden = 7168;
  problem.intermediate = 2048;
  problem.experts_per_rank = 32;
  problem.most_tokens = 65536;
  const std::int64_t rows = std::int64_t{65536} * 8 * 8 + 31 * 128;  // 32 gaps of 127 rows, whole units
  EXPECT_EQ(most_rows(problem, 8), rows);
  EXPECT_EQ(heap_sections(problem, 8).tokens, static_cast<std::size_t>(rows) * 7168 * 2);
}

/// Flags of every peer's CTAs and warps, both ways, as many as a launch may have; none in another's place.
TEST(MoeHeap, SignalsOfTheMostCtas) {
  using kernels::CallPad;
  using kernels::MoeExchangePad;
  constexpr auto blocks = static_cast<std::int32_t>(CallPad::most_blocks);
  for (const int world : {1, 2, 8}) {
    const std::uint32_t last = MoeExchangePad::combine_flags(world, blocks) +
                               MoeExchangePad::flag(world - 1, blocks - 1, blocks, kernels::most_moe_senders - 1);
    EXPECT_EQ(CallPad::arrivals + arrival_words(world), last + 1);
    EXPECT_GE(heap_sections(valid(), world).pad, std::size_t{last + 1} * 4);
    EXPECT_LT(heap_sections(valid(), world).pad, std::size_t{last + 1} * 4 + 1024);
  }
}

/// Written out: an expert with any row ends with a gap of at most group_alignment - 1.
TEST(MoeHeap, MostRowsAreThoseOfTheMostGaps) {
  Problem problem = valid();
  for (const int world : {1, 2, 3, 8}) {
    for (const int experts : {1, 2, 16, 256}) {
      for (const int tokens : {1, 2, 3, 17, 128, 1000, 65536}) {
        problem.experts_per_rank = experts;
        problem.most_tokens = tokens;
        const std::int64_t choices = std::int64_t{tokens} * problem.top_k * world;
        const std::int64_t with_rows = std::min<std::int64_t>(experts, choices);
        EXPECT_EQ(most_rows(problem, world),
                  (choices + with_rows * (group_alignment - 1)) / group_alignment * group_alignment)
            << world << " ranks, " << experts << " experts, " << tokens << " tokens";
      }
    }
  }
}

/// Rows of a rank's experts, each rounded up to whole units.
std::int64_t rows_of(const Routing& routing, int rank) {
  std::int64_t rows = 0;
  for (const auto& of_expert : dispatched(routing, rank)) {
    const auto count = static_cast<std::int64_t>(of_expert.size());
    rows += (count + group_alignment - 1) / group_alignment * group_alignment;
  }
  return rows;
}

TEST(MoeHeap, EveryRoutingFits) {
  Problem problem = valid();
  for (const int world : {1, 2, 8}) {
    for (const int tokens : {1, 2, 16, 17, 129, 513}) {
      problem.most_tokens = tokens;
      std::int64_t largest = 0;
      for (const Skew skew : {Skew::balanced, Skew::zipf, Skew::one_expert}) {
        RoutingRequest request = request_for(problem, world, tokens);
        request.skew = skew;
        const Routing routing = make_routing(request);
        for (int rank = 0; rank < world; ++rank) {
          largest = std::max(largest, rows_of(routing, rank));
        }
      }
      EXPECT_LE(largest, most_rows(problem, world)) << tokens << " tokens on " << world << " ranks";
      // One rank takes all tokens, and little is wasted.
      EXPECT_GT(largest, most_rows(problem, world) - problem.experts_per_rank * group_alignment);
    }
  }
}

TEST(MoeHeap, WorstGapsFit) {
  // 16 experts with one choice each, then one of them with 129: as many rows as the heap is made for.
  Problem problem = valid();
  problem.top_k = 1;
  for (const int tokens : {1, 15, 16, 17, 144, 145, 4096}) {
    problem.most_tokens = tokens;
    std::vector<std::int64_t> loads(16);
    for (int token = 0; token < tokens; ++token) {
      ++loads[token < 16 ? static_cast<std::size_t>(token) : 0];
    }
    std::int64_t rows = 0;
    for (const std::int64_t load : loads) {
      rows += (load + 127) / 128 * 128;
    }
    EXPECT_LE(rows, most_rows(problem, 1)) << tokens;
    EXPECT_GE(rows, most_rows(problem, 1) - 128) << tokens;
  }
}

}  // namespace
}  // namespace xstage::moe::heap_test
