// Results of attention on real GPUs: plain, and on virtual ranks or two GPUs with the rows sent to their owners.

#include "xstage/attention.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gpu/call_support.hpp"
#include "gpu/graph_support.hpp"
#include "ops/attention/test/gpu/reference.hpp"
#include "ops/attention/test/gpu/support.hpp"
#include "xstage/error.hpp"

namespace xstage::attention_test {
namespace {

using attention::Destination;
using attention::Element;
using attention_test::Call;
using attention_test::Case;
using attention_test::complaint_about;
using attention_test::make_case;
using attention_test::make_problem;
using attention_test::Pattern;
using attention_test::Random;
using attention_test::Ranks;

using gpu_test::expect_right_calls;
using gpu_test::replay_three_launches;
using gpu_test::virtual_ranks;

/// Enqueues several calls with different operands back to back, then verifies all of them.
void expect_right(const Case& which, const std::vector<int>& devices, int calls, std::uint64_t seed,
                  Pattern pattern = Pattern::normal) {
  SCOPED_TRACE(which.text());
  Ranks ranks(which, devices);
  std::vector<Call> all;
  for (int call = 0; call < calls; ++call) {
    all.emplace_back(which, devices, seed + static_cast<std::uint64_t>(call), pattern);
  }
  expect_right_calls(which, ranks, all);
}

attention::Plan plan_of(StorePath store_path, int issuers = 0, int split = -1) {
  attention::Plan plan;
  plan.store_path = store_path;
  plan.issuers = issuers;
  plan.split = split;
  return plan;
}

// ---- random shapes and plans
// -----------------------------------------------------------------------------------------

TEST(Attention, RandomShapes) {
  SKIP_WITHOUT_HOPPER(1);
  Random random(300);
  for (std::uint64_t repetition = 0; repetition < 60; ++repetition) {
    expect_right(attention_test::random_case(Destination::local, 1, random), {0}, 2, 10 * repetition);
  }
}

/// Ranks that do not communicate: each has its heads, as in a layer whose exchange is done by other means.
TEST(Attention, RandomShapesOfSeveralRanks) {
  SKIP_WITHOUT_HOPPER(1);
  Random random(301);
  for (const int world : {2, 3, 8}) {
    for (std::uint64_t repetition = 0; repetition < 3; ++repetition) {
      expect_right(attention_test::random_case(Destination::local, world, random), virtual_ranks(world), 2,
                   10 * repetition);
    }
  }
}

TEST(AttentionToOwners, RandomShapesOnVirtualRanks) {
  SKIP_WITHOUT_HOPPER(1);
  Random random(302);
  for (int world = 1; world <= max_world; ++world) {
    for (int repetition = 0; repetition < 8; ++repetition) {
      expect_right(attention_test::random_case(Destination::to_owners, world, random), virtual_ranks(world), 3,
                   static_cast<std::uint64_t>(world * 100 + 10 * repetition));
    }
  }
}

TEST(AttentionTwin, RandomShapesOnVirtualRanks) {
  SKIP_WITHOUT_HOPPER(1);
  Random random(303);
  for (const int world : {1, 2, 5, 8}) {
    for (std::uint64_t repetition = 0; repetition < 3; ++repetition) {
      expect_right(attention_test::random_case(Destination::twin, world, random), virtual_ranks(world), 2,
                   10 * repetition);
    }
  }
}

TEST(AttentionToOwners, RandomShapesOnTwoGpus) {
  SKIP_WITHOUT_HOPPER(2);
  Random random(304);
  for (std::uint64_t repetition = 0; repetition < 30; ++repetition) {
    expect_right(attention_test::random_case(Destination::to_owners, 2, random), {0, 1}, 4, 10 * repetition);
  }
}

/// The rule's plan on shapes that fill the GPU several times over.
TEST(Attention, ManyTiles) {
  SKIP_WITHOUT_HOPPER(1);
  std::uint64_t seed = 0;
  for (const bool causal : {false, true}) {
    for (const int head_dim : {64, 128}) {
      attention::Problem problem = make_problem(Destination::local, 1, 2600, 2600, 24, 8, head_dim);
      problem.causal = causal;
      expect_right(make_case(problem, 1), {0}, 2, ++seed);
      problem = make_problem(Destination::to_owners, 2, 2600, 2600, 12, 4, head_dim);
      problem.causal = causal;
      expect_right(make_case(problem, 2), virtual_ranks(2), 2, ++seed);
      if (gpu_test::unavailable_reason(2).empty()) {
        expect_right(make_case(problem, 2), {0, 1}, 4, ++seed);
      }
    }
  }
}

// ---- shapes at the edges
// ---------------------------------------------------------------------------------------------

/// Rows and keys next to the multiples of 64, 128 and 192 of which stores, blocks of keys and tiles are made.
TEST(Attention, ExtentsNextToThoseOfTiles) {
  SKIP_WITHOUT_HOPPER(1);
  std::uint64_t seed = 0;
  for (const std::int64_t rows : {1, 63, 64, 65, 127, 128, 129, 191, 192, 193, 383, 384, 385}) {
    const int head_dim = rows % 2 == 0 ? 64 : 128;
    for (const std::int64_t keys : {1, 127, 128, 129, 257}) {
      const attention::Problem problem = make_problem(Destination::local, 1, rows, keys, 2, 1, head_dim);
      expect_right(make_case(problem, 1, plan_of(StorePath::bulk, 2, 0)), {0}, 1, ++seed);
    }
    attention::Problem causal = make_problem(Destination::local, 1, rows, rows, 2, 1, head_dim);
    causal.causal = true;
    expect_right(make_case(causal, 1, plan_of(StorePath::bulk, 3)), {0}, 1, ++seed);
  }
}

TEST(Attention, HeadsThatShareKeysAndValues) {
  SKIP_WITHOUT_HOPPER(1);
  std::uint64_t seed = 0;
  for (const int kv_heads : {1, 2, 3, 6}) {
    for (const bool causal : {false, true}) {
      attention::Problem problem = make_problem(Destination::local, 1, 300, 300, 6, kv_heads);
      problem.sequences = 2;
      problem.causal = causal;
      expect_right(make_case(problem, 1), {0}, 2, seed += 10);
    }
  }
}

/// One or two CTAs compute all tiles, so that each ring and barrier goes through many rounds.
TEST(Attention, ManyTilesForEachCta) {
  SKIP_WITHOUT_HOPPER(1);
  std::uint64_t seed = 0;
  for (const Element element : {Element::bf16, Element::fp16}) {
    for (const int head_dim : {64, 128}) {
      attention::Problem problem = make_problem(Destination::local, 1, 450, 200, 5, 5, head_dim);
      problem.sequences = 3;
      problem.element = element;
      expect_right(make_case(problem, 1, plan_of(StorePath::bulk, 1)), {0}, 2, seed += 10);
      expect_right(make_case(problem, 1, plan_of(StorePath::store16, 2, 1)), {0}, 2, seed += 10);
      problem.keys = problem.rows;
      problem.causal = true;
      expect_right(make_case(problem, 1, plan_of(StorePath::bulk, 1)), {0}, 2, seed += 10);
      expect_right(make_case(problem, 1, plan_of(StorePath::bulk, 2)), {0}, 2, seed += 10);
    }
  }
}

/// Tiles that several CTAs share: two to all of them, with and without whole tiles before, shares that end in one tile
/// and begin another, fewer blocks of keys than CTAs.
TEST(Attention, TilesThatAreSplit) {
  SKIP_WITHOUT_HOPPER(1);
  std::uint64_t seed = 0;
  for (const std::int64_t keys : {1, 129, 400, 1000, 3000}) {
    for (const int issuers : {0, 2, 3, 5, 7, 20}) {
      attention::Problem problem = make_problem(Destination::local, 1, 550, keys, 3, 3, seed % 20 == 0 ? 64 : 128);
      problem.element = seed % 3 == 0 ? Element::fp16 : Element::bf16;
      expect_right(make_case(problem, 1, plan_of(StorePath::bulk, issuers, 1)), {0}, 3, seed += 10);
    }
  }
  for (const StorePath path : {StorePath::bulk, StorePath::store16}) {
    for (const int world : {2, 3, 8}) {
      const attention::Problem problem = make_problem(Destination::to_owners, world, 550, 1500, 2, 1);
      expect_right(make_case(problem, world, plan_of(path, 0, 1)), virtual_ranks(world), 3, seed += 10);
      expect_right(make_case(problem, world, plan_of(path, 5, 1)), virtual_ranks(world), 3, seed += 10);
    }
    if (gpu_test::unavailable_reason(2).empty()) {
      const attention::Problem problem = make_problem(Destination::to_owners, 2, 550, 1500, 2, 1);
      expect_right(make_case(problem, 2, plan_of(path, 0, 1)), {0, 1}, 4, seed += 10);
    }
  }
}

/// The least alignment that the interface allows.
TEST(Attention, OperandsOnSixteenBytes) {
  SKIP_WITHOUT_HOPPER(1);
  const Case which = make_case(make_problem(Destination::local, 1, 200, 300), 1);
  Ranks ranks(which, {0});
  const Call call(which, {0}, 1);
  attention::Operands operands = call.operands(0);
  const std::size_t query_bytes = call.host(0).query.size() * 2;
  const std::size_t key_bytes = call.host(0).key.size() * 2;
  const cuda::DeviceBuffer copy(0, query_bytes + 2 * key_bytes + 64, "shifted operands");
  char* query = copy.as<char>() + 16;
  char* key = query + query_bytes + 16;
  char* value = key + key_bytes + 16;
  ASSERT_EQ(cudaMemcpy(query, operands.query, query_bytes, cudaMemcpyDeviceToDevice), cudaSuccess);
  ASSERT_EQ(cudaMemcpy(key, operands.key, key_bytes, cudaMemcpyDeviceToDevice), cudaSuccess);
  ASSERT_EQ(cudaMemcpy(value, operands.value, key_bytes, cudaMemcpyDeviceToDevice), cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  operands.query = query;
  operands.key = key;
  operands.value = value;
  ranks[0].launch(operands, ranks.stream(0));
  ranks.finish();
  EXPECT_EQ(complaint_about(which, call), "");
}

TEST(AttentionToOwners, RanksWithoutRows) {
  SKIP_WITHOUT_HOPPER(1);
  for (const StorePath path : {StorePath::bulk, StorePath::store16}) {
    for (const std::int64_t rows : {1, 3, 5}) {  // of 4 ranks three, one and one have none
      attention::Problem problem = make_problem(Destination::to_owners, 4, rows, 130);
      problem.sequences = 2;
      expect_right(make_case(problem, 4, plan_of(path)), virtual_ranks(4), 3, static_cast<std::uint64_t>(10 * rows));
    }
  }
  const Case which = make_case(make_problem(Destination::to_owners, 4, 5, 130), 4);
  Ranks ranks(which, virtual_ranks(4));
  EXPECT_NE(ranks[2].output(), nullptr);
  EXPECT_EQ(ranks[3].output(), nullptr) << "rows 0-1, 2-3 and 4 belong to ranks 0 to 2";
  if (gpu_test::unavailable_reason(2).empty()) {
    expect_right(make_case(make_problem(Destination::to_owners, 2, 1, 130), 2), {0, 1}, 3, 9);
  }
}

/// Owners change within tiles, within the 64 rows of a store, and several times within one.
TEST(AttentionToOwners, TilesThatCrossRanks) {
  SKIP_WITHOUT_HOPPER(1);
  std::uint64_t seed = 0;
  for (const StorePath path : {StorePath::bulk, StorePath::store16}) {
    for (const auto& [world, rows] : {std::pair{8, 81}, {8, 500}, {5, 193}, {3, 384}, {3, 191}, {2, 127}, {2, 129}}) {
      attention::Problem problem =
          make_problem(Destination::to_owners, world, rows, 200, 1, 1, seed % 20 == 0 ? 64 : 128);
      problem.sequences = 3;
      expect_right(make_case(problem, world, plan_of(path, 2)), virtual_ranks(world), 3, seed += 10);
      problem.keys = problem.rows;
      problem.causal = true;
      expect_right(make_case(problem, world, plan_of(path, 3)), virtual_ranks(world), 3, seed += 10);
    }
  }
}

// ---- scores that are far apart, or not at all
// ------------------------------------------------------------------------

TEST(Attention, UnusualScores) {
  SKIP_WITHOUT_HOPPER(1);
  std::uint64_t seed = 0;
  for (const Pattern pattern : {Pattern::far_apart, Pattern::equal_scores, Pattern::one_huge_key}) {
    for (const Element element : {Element::bf16, Element::fp16}) {
      for (const int head_dim : {64, 128}) {
        for (const bool causal : {false, true}) {
          attention::Problem problem = make_problem(Destination::local, 1, 450, 450, 6, 3, head_dim);
          problem.sequences = 2;
          problem.causal = causal;
          problem.element = element;
          expect_right(make_case(problem, 1, plan_of(StorePath::bulk, 0, 0)), {0}, 1, ++seed, pattern);
          if (!causal) {  // parts whose greatest scores are far apart
            problem.keys = 1500;
            expect_right(make_case(problem, 1, plan_of(StorePath::bulk, 7, 1)), {0}, 1, ++seed, pattern);
          }
        }
      }
    }
  }
}

/// A huge score gives an exact result: a row whose other probabilities vanish has that key's value.
TEST(Attention, AKeyThatOutweighsAllOthersGivesItsValue) {
  SKIP_WITHOUT_HOPPER(1);
  const Case which = make_case(make_problem(Destination::local, 1, 300, 500, 1, 1), 1);
  Ranks ranks(which, {0});
  const Call call(which, {0}, 1, Pattern::one_huge_key);
  ranks.enqueue(call);
  ranks.finish();
  const std::vector<float>& key = call.host(0).key;
  const auto huge = std::find_if(key.begin(), key.end(), [](float value) { return value == 16 || value == -16; });
  ASSERT_NE(huge, key.end());
  const auto row = (huge - key.begin()) / 128;
  const std::vector<std::uint16_t> result = call.read_result(0);
  for (std::size_t index = 0; index < result.size(); ++index) {
    const float value = call.host(0).value[static_cast<std::size_t>(row) * 128 + index % 128];
    ASSERT_EQ(attention_test::from_bits(result[index], Element::bf16), value) << "element " << index;
  }
}

// ---- the same bits whatever the destination
// --------------------------------------------------------------------------

/// Results of one call as complete rows [sequences, rows, heads, head_dim], assembled from all ranks.
std::vector<std::uint16_t> whole_rows(const Case& which, const Call& call) {
  const attention::Problem& problem = which.problem;
  const auto head_dim = static_cast<std::size_t>(problem.head_dim);
  std::vector<std::vector<std::uint16_t>> results;
  for (int rank = 0; rank < which.ranks; ++rank) {
    results.push_back(call.read_result(rank));
  }
  std::vector<std::uint16_t> whole;
  for (std::int64_t sequence = 0; sequence < problem.sequences; ++sequence) {
    for (std::int64_t row = 0; row < problem.rows; ++row) {
      for (int head = 0; head < problem.heads; ++head) {
        const Case::Place place = which.place(head / which.heads_each(), sequence, row, head % which.heads_each());
        const auto* bits = results[static_cast<std::size_t>(place.holder)].data() + place.offset;
        whole.insert(whole.end(), bits, bits + head_dim);
      }
    }
  }
  return whole;
}

/// Both store paths to the owners, twin and plain attention, each with the same operands. No tile is split, since
/// another number of CTAs or another first tile would split other tiles.
void expect_same_bits(int world, const std::vector<int>& devices, bool causal) {
  std::vector<std::uint16_t> first;
  for (const Destination destination : {Destination::local, Destination::to_owners, Destination::twin}) {
    for (const StorePath path : {StorePath::bulk, StorePath::store16}) {
      attention::Problem problem = make_problem(destination, world, 333, 333, 2, 1);
      problem.causal = causal;
      problem.sequences = 2;
      const Case which = make_case(problem, world, plan_of(path, 0, 0));
      SCOPED_TRACE(which.text());
      Ranks ranks(which, devices);
      const Call call(which, devices, 5);
      ranks.enqueue(call);
      ranks.finish();
      EXPECT_EQ(complaint_about(which, call), "");
      const std::vector<std::uint16_t> whole = whole_rows(which, call);
      first = first.empty() ? whole : first;
      EXPECT_TRUE(whole == first) << "other bits than those of plain attention";
    }
  }
}

TEST(Attention, AllDestinationsHaveTheSameBits) {
  SKIP_WITHOUT_HOPPER(1);
  for (const int world : {1, 4, 7}) {
    expect_same_bits(world, virtual_ranks(world), world == 4);
  }
  if (gpu_test::unavailable_reason(2).empty()) {
    expect_same_bits(2, {0, 1}, false);
    expect_same_bits(2, {0, 1}, true);
  }
}

/// The cooperative kernel without waits: a world of one, and ranks of a plain attention.
TEST(Attention, CommonLaunchesWithoutAnExchange) {
  SKIP_WITHOUT_HOPPER(1);
  const auto expect_right_together = [](Destination destination, int world) {
    const Case which = make_case(make_problem(destination, world, 250, 250), world);
    SCOPED_TRACE(which.text());
    Ranks ranks(which, virtual_ranks(world));
    const Call call(which, ranks.devices(), 3);
    ranks.enqueue_together(call);
    ranks.finish();
    EXPECT_EQ(complaint_about(which, call), "");
  };
  expect_right_together(Destination::local, 1);
  expect_right_together(Destination::to_owners, 1);
  expect_right_together(Destination::local, 3);
}

// ---- counters of what has arrived
// ------------------------------------------------------------------------------------

/// Expects the counters of `calls` calls since the construction or a reset.
void expect_arrivals(const Case& which, Ranks& ranks, std::uint32_t calls) {
  constexpr std::int64_t block_rows = 64;
  for (int rank = 0; rank < which.ranks; ++rank) {
    const attention::Arrivals arrivals = ranks[rank].arrivals();
    ASSERT_NE(arrivals.counters, nullptr);
    ASSERT_GT(arrivals.each, 0U);
    ASSERT_EQ(arrivals.blocks, (which.problem.rows + block_rows - 1) / block_rows);
    const auto count = static_cast<std::size_t>(which.problem.sequences * arrivals.blocks);
    std::vector<std::uint32_t> counters(count);
    const cuda::CurrentDevice current(ranks.devices()[static_cast<std::size_t>(rank)]);
    ASSERT_EQ(cudaMemcpy(counters.data(), arrivals.counters, count * sizeof(std::uint32_t), cudaMemcpyDeviceToHost),
              cudaSuccess);
    for (std::size_t index = 0; index < count; ++index) {
      const std::int64_t begin = static_cast<std::int64_t>(index) % arrivals.blocks * block_rows;
      const std::int64_t end = std::min(begin + block_rows, which.problem.rows);
      const bool has_rows = begin < which.rows_begin(rank + 1) && end > which.rows_begin(rank);
      EXPECT_EQ(counters[index], has_rows ? calls * arrivals.each : 0)
          << "rank " << rank << ", counter " << index << " after " << calls << " calls";
    }
  }
}

void expect_right_arrivals(const Case& which, const std::vector<int>& devices) {
  SCOPED_TRACE(which.text());
  Ranks ranks(which, devices);
  const Call call(which, devices, 1);
  expect_arrivals(which, ranks, 0);
  for (const std::uint32_t calls : {1U, 2U, 5U}) {
    for (std::uint32_t before = calls == 5 ? 2 : calls - 1; before < calls; ++before) {
      ranks.enqueue(call);
    }
    ranks.finish();
    expect_arrivals(which, ranks, calls);
  }
  Attention::reset(ranks.handles());
  ranks.enqueue(call);
  ranks.finish();
  expect_arrivals(which, ranks, 1);
  EXPECT_EQ(complaint_about(which, call), "");
}

TEST(AttentionToOwners, CountersOfArrivals) {
  SKIP_WITHOUT_HOPPER(1);
  for (const StorePath path : {StorePath::bulk, StorePath::store16}) {
    for (const int world : {1, 2, 3, 8}) {
      attention::Problem problem = make_problem(Destination::to_owners, world, 333, 333, 3, 1);
      problem.sequences = 2;
      expect_right_arrivals(make_case(problem, world, plan_of(path)), virtual_ranks(world));
      problem.causal = true;
      expect_right_arrivals(make_case(problem, world, plan_of(path)), virtual_ranks(world));
    }
  }
  expect_right_arrivals(make_case(make_problem(Destination::to_owners, 4, 3, 100), 4), virtual_ranks(4));
  if (gpu_test::unavailable_reason(2).empty()) {
    expect_right_arrivals(make_case(make_problem(Destination::to_owners, 2, 1001, 500), 2), {0, 1});
  }
}

TEST(AttentionToOwners, OthersHaveNoCountersOfArrivals) {
  SKIP_WITHOUT_HOPPER(1);
  for (const Destination destination : {Destination::local, Destination::twin}) {
    Ranks ranks(make_case(make_problem(destination, 1, 100, 100), 1), {0});
    EXPECT_THROW(static_cast<void>(ranks[0].arrivals()), InputError);
  }
}

// ---- CUDA graphs
// -----------------------------------------------------------------------------------------------------

/// Results that lie in the heap are those of the last launch.
void expect_right_replays(const Case& which, const std::vector<int>& devices) {
  SCOPED_TRACE(which.text());
  Ranks ranks(which, devices);
  const bool in_heap = which.problem.destination == Destination::to_owners;
  replay_three_launches<Call>(which, ranks, 10, [&](const std::vector<Call>& calls, int replays) {
    for (std::size_t launch = in_heap ? calls.size() - 1 : 0; launch < calls.size(); ++launch) {
      EXPECT_EQ(complaint_about(which, calls[launch]), "") << "launch " << launch;
    }
    if (in_heap) {
      expect_arrivals(which, ranks, static_cast<std::uint32_t>(calls.size()) * static_cast<std::uint32_t>(replays));
    }
  });
  EXPECT_TRUE(ranks.guards_are_untouched());
}

TEST(Attention, ReplaysOfAGraph) {
  SKIP_WITHOUT_HOPPER(1);
  for (const bool causal : {false, true}) {
    for (const Destination destination : {Destination::local, Destination::to_owners}) {
      attention::Problem problem = make_problem(destination, 1, 501, 501, 4, 2);
      problem.causal = causal;
      expect_right_replays(make_case(problem, 1), {0});
    }
  }
}

TEST(AttentionToOwners, ReplaysOfAGraphOnTwoGpus) {
  SKIP_WITHOUT_HOPPER(2);
  for (const bool causal : {false, true}) {
    attention::Problem problem = make_problem(Destination::to_owners, 2, 501, 501, 4, 2);
    problem.causal = causal;
    expect_right_replays(make_case(problem, 2), {0, 1});
  }
}

}  // namespace
}  // namespace xstage::attention_test
