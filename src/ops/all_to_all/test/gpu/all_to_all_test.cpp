// Results of the all-to-all on real GPUs: virtual ranks of one GPU, and two GPUs where they are present.

#include "xstage/all_to_all.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "gpu/graph_support.hpp"
#include "ops/all_to_all/test/gpu/support.hpp"

namespace xstage::all_to_all_test {
namespace {

using all_to_all::Plan;
using all_to_all::Transfer;
using all_to_all_test::Call;
using all_to_all_test::Case;
using all_to_all_test::expect_right_call;
using all_to_all_test::make_case;
using all_to_all_test::Random;
using all_to_all_test::random_case;
using all_to_all_test::Ranks;
using all_to_all_test::two_gpus;
using all_to_all_test::virtual_ranks;
using gpu_test::capture;
using gpu_test::Graph;

/// Enqueues several calls with different operands back to back, then verifies all of them.
void expect_right(const Case& which, const std::vector<int>& devices, int calls, std::uint64_t seed) {
  SCOPED_TRACE(which.text());
  Ranks ranks(which, devices);
  std::vector<Call> all;
  all.reserve(static_cast<std::size_t>(calls));
  for (int call = 0; call < calls; ++call) {
    all.emplace_back(which, devices, seed * 100 + static_cast<std::uint64_t>(call));
  }
  for (const Call& call : all) {
    ranks.enqueue(call);
  }
  ranks.finish();
  for (int rank = 0; rank < which.ranks; ++rank) {
    EXPECT_EQ(ranks[rank].output() == nullptr, which.own_rows(rank) == 0);
  }
  for (const Call& call : all) {
    call.expect_right();
  }
  ranks.expect_untouched_guards();
}

// ---- shapes and plans

TEST(AllToAll, RandomShapesOnVirtualRanks) {
  SKIP_WITHOUT_HOPPER(1);
  Random random(300);
  for (int world = 1; world <= max_world; ++world) {
    for (int repetition = 0; repetition < 8; ++repetition) {
      expect_right(random_case(world, random), virtual_ranks(world), 3,
                   static_cast<std::uint64_t>(world * 10 + repetition));
    }
  }
}

TEST(AllToAll, RandomShapesOnTwoGpus) {
  SKIP_WITHOUT_HOPPER(2);
  Random random(400);
  for (std::uint64_t repetition = 0; repetition < 25; ++repetition) {
    expect_right(random_case(2, random), {0, 1}, 4, repetition);
  }
}

/// Many rounds of each CTA's ring, with the rule's plan and with either transfer.
TEST(AllToAll, ManyChunks) {
  SKIP_WITHOUT_HOPPER(1);
  for (const Transfer transfer : {Transfer::by_rule, Transfer::rows, Transfer::boxes}) {
    Plan plan;
    plan.transfer = transfer;
    expect_right(make_case({1, 6007, 12, 128}, 3, plan), virtual_ranks(3), 3, 1);
    expect_right(make_case({2, 4001, 16, 64}, 1, plan), {0}, 3, 2);
    if (two_gpus()) {
      expect_right(make_case({1, 16001, 24, 128}, 2, plan), {0, 1}, 4, 3);
    }
  }
}

TEST(AllToAll, RanksWithoutRows) {
  SKIP_WITHOUT_HOPPER(1);
  for (const std::int64_t rows : {1, 3, 5}) {  // of 4 ranks three, one and one have none
    for (const Transfer transfer : {Transfer::rows, Transfer::boxes}) {
      Plan plan;
      plan.transfer = transfer;
      expect_right(make_case({2, rows, 8, 64}, 4, plan), virtual_ranks(4), 3, static_cast<std::uint64_t>(rows));
    }
  }
  if (two_gpus()) {
    expect_right(make_case({1, 1, 24, 128}, 2), {0, 1}, 3, 9);
  }
}

TEST(AllToAll, RowsLongerThanAChunk) {
  SKIP_WITHOUT_HOPPER(1);
  for (const Transfer transfer : {Transfer::rows, Transfer::boxes}) {
    Plan plan;
    plan.transfer = transfer;
    plan.chunk_bytes = 2000;  // 7 of 25 heads
    expect_right(make_case({2, 103, 50, 128}, 2, plan), virtual_ranks(2), 3, 1);
  }
}

/// The least alignment that the interface allows.
TEST(AllToAll, InputOnSixteenBytes) {
  SKIP_WITHOUT_HOPPER(1);
  const Case which = make_case({1, 301, 3, 72}, 1);
  Ranks ranks(which, {0});
  const Call call(which, {0}, 1);
  const cuda::DeviceBuffer copy(0, which.input_elements() * 2 + 16, "a shifted input");
  char* shifted = copy.as<char>() + 16;
  ASSERT_EQ(cudaMemcpy(shifted, call.operands(0).input, which.input_elements() * 2, cudaMemcpyDeviceToDevice),
            cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  ranks.poison(0);
  ranks[0].launch({shifted}, ranks.stream(0));
  ranks.collect(call, 0);
  ranks.finish();
  call.expect_right();
}

// ---- launches with nothing between them: each begins while the one before it ends

/// Results of the last call.
TEST(AllToAll, LaunchesThatFollowAtOnce) {
  SKIP_WITHOUT_HOPPER(1);
  const int world = two_gpus() ? 2 : 1;
  const std::vector<int> devices = two_gpus() ? std::vector<int>{0, 1} : std::vector<int>{0};
  for (const std::int64_t rows : {3, 300, 8000}) {
    const Case which = make_case({1, rows, 6, 128}, world);
    SCOPED_TRACE(which.text());
    Ranks ranks(which, devices);
    const Call calls[2] = {{which, devices, 1}, {which, devices, 2}};
    for (int launch = 0; launch < 20; ++launch) {
      for (int rank = 0; rank < world; ++rank) {
        if (launch == 0) {
          ranks.poison(rank);
        }
        ranks[rank].launch(calls[launch % 2].operands(rank), ranks.stream(rank));
      }
    }
    for (int rank = 0; rank < world; ++rank) {
      ranks.collect(calls[1], rank);
    }
    ranks.finish();
    calls[1].expect_right();
    ranks.expect_untouched_guards();
  }
}

/// Captures three launches of each rank and verifies the result of the last one.
void expect_right_replays(const Case& which, const std::vector<int>& devices) {
  SCOPED_TRACE(which.text());
  Ranks ranks(which, devices);
  std::vector<Call> calls;
  for (std::uint64_t launch = 0; launch < 3; ++launch) {
    calls.emplace_back(which, devices, launch);
  }
  const std::vector<Graph> graphs = capture(ranks, [&](int rank) {
    for (const Call& call : calls) {
      ranks[rank].launch(call.operands(rank), ranks.stream(rank));
    }
  });
  std::uint64_t seed = 10;
  for (const int in_a_row : {1, 1, 3}) {
    for (Call& call : calls) {
      call.refill(++seed);
    }
    for (int rank = 0; rank < ranks.count(); ++rank) {
      ranks.poison(rank);
      for (int replay = 0; replay < in_a_row; ++replay) {
        graphs[static_cast<std::size_t>(rank)].replay();
      }
      ranks.collect(calls.back(), rank);
    }
    ranks.finish();
    calls.back().expect_right();
  }
  ranks.expect_untouched_guards();
  expect_right_call(which, ranks, 99);  // eager launches may follow
}

TEST(AllToAll, ReplaysOfAGraph) {
  SKIP_WITHOUT_HOPPER(1);
  expect_right_replays(make_case({2, 501, 3, 128}, 1), {0});
}

TEST(AllToAll, ReplaysOfAGraphOnTwoGpus) {
  SKIP_WITHOUT_HOPPER(2);
  expect_right_replays(make_case({1, 2049, 24, 128}, 2), {0, 1});
  expect_right_replays(make_case({2, 77, 4, 64}, 2), {0, 1});
}

}  // namespace
}  // namespace xstage::all_to_all_test
