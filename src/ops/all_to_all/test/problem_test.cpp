// Rules of an all-to-all's problem and plan: each violation names the value and the rule.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <tuple>

#include "ops/all_to_all/problem.hpp"
#include "xstage/error.hpp"

namespace xstage::all_to_all::problem_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int multiprocessors = 132;

Problem valid() { return {1, 2048, 24, 128}; }

template <typename Function>
std::string complaint(Function&& function) {
  try {
    function();
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

std::string refusal(const std::function<void(Problem&)>& change, int world = 2) {
  Problem problem = valid();
  change(problem);
  return complaint([&] { check_problem(problem, world); });
}

TEST(AllToAllProblem, ValidOnesPass) {
  for (const int world : {1, 2, 3, 4, 6, 8}) {
    for (const int head_dim : {8, 64, 72, 128, 1024}) {
      EXPECT_EQ(refusal([=](Problem& problem) { problem.head_dim = head_dim; }, world), "");
    }
  }
  EXPECT_EQ(refusal([](Problem& problem) { problem = {3, 1, 8, 64}; }, 8), "") << "seven ranks without rows";
}

TEST(AllToAllProblem, RanksAreOneToEight) {
  for (const int world : {-1, 0, 9}) {
    EXPECT_THAT(refusal([](Problem&) {}, world),
                AllOf(HasSubstr(std::to_string(world) + " ranks"), HasSubstr("1 to 8")));
  }
}

TEST(AllToAllProblem, ExtentsAreInRange) {
  for (const std::int64_t value : {std::int64_t{-8}, std::int64_t{0}, (std::int64_t{1} << 30U) + 1}) {
    const std::string rule = " is " + std::to_string(value) + ": it must be between 1 and 1073741824";
    EXPECT_THAT(refusal([=](Problem& problem) { problem.rows = value; }), HasSubstr("rows" + rule));
    EXPECT_THAT(refusal([=](Problem& problem) { problem.sequences = value; }), HasSubstr("sequences" + rule));
  }
}

TEST(AllToAllProblem, HeadsAreShared) {
  EXPECT_THAT(refusal([](Problem& problem) { problem.heads = 0; }), HasSubstr("heads is 0: it must be at least 1"));
  EXPECT_THAT(refusal([](Problem& problem) { problem.heads = 25; }, 4),
              HasSubstr("heads is 25: it must be a multiple of the 4 ranks"));
}

TEST(AllToAllProblem, HeadsAreWholeUnitsOfBulkCopies) {
  for (const int head_dim : {-8, 0, 4, 100, 1032}) {
    EXPECT_THAT(
        refusal([=](Problem& problem) { problem.head_dim = head_dim; }),
        AllOf(HasSubstr("head_dim is " + std::to_string(head_dim)), HasSubstr("multiple of 8 between 8 and 1024")));
  }
}

TEST(AllToAllProblem, ChunksCanBeCounted) {
  const auto set = [](std::int64_t sequences) {
    return [=](Problem& problem) { problem = {sequences, std::int64_t{1} << 20U, 8, 64}; };
  };
  EXPECT_EQ(refusal(set(256), 2), "");
  EXPECT_THAT(refusal(set(257), 2), AllOf(HasSubstr("257 * 1048576 * 4"), HasSubstr("at most 1073741824")));
  EXPECT_EQ(refusal(set(257), 4), "");
}

// ---- sizes

TEST(AllToAllProblem, ResultsHoldOwnRowsOfAllHeads) {
  const Problem problem{3, 10, 8, 64};
  EXPECT_EQ(result_bytes(problem, 0, 4), 3U * 3U * 8U * 64U * 2U);
  EXPECT_EQ(result_bytes(problem, 3, 4), 3U * 1U * 8U * 64U * 2U);
  EXPECT_EQ(result_bytes({1, 2, 4, 64}, 3, 4), 0U);
}

TEST(AllToAllProblem, RemoteBytesAreThoseOfTheRankThatOwnsLeast) {
  EXPECT_EQ(remote_bytes({2, 10, 8, 64}, 1), 0);
  EXPECT_EQ(remote_bytes({2, 10, 8, 64}, 2), 2 * 5 * 4 * 64 * 2);
  EXPECT_EQ(remote_bytes({2, 10, 8, 64}, 4), 2 * 9 * 2 * 64 * 2);
}

TEST(AllToAllProblem, HeapHoldsThePadAndTheLargestResult) {
  const std::size_t pad = heap_bytes({1, 1, 8, 64}, 1) - 1024;
  EXPECT_GT(pad, 0U);
  EXPECT_EQ(heap_bytes({1, 5, 8, 64}, 4), pad + 2048);  // two rows of 1 KiB
  EXPECT_EQ(complaint([] { std::ignore = heap_bytes({1, 0, 8, 64}, 4); }).substr(0, 9), "rows is 0");
}

// ---- plans

std::string plan_refusal(const std::function<void(Plan&)>& change, int world = 2) {
  Plan plan;
  change(plan);
  return complaint([&] { std::ignore = complete_plan(valid(), plan, world, multiprocessors); });
}

TEST(AllToAllPlan, FieldsAreInRange) {
  EXPECT_THAT(plan_refusal([](Plan& plan) { plan.stages = 2; }), HasSubstr("stages is 2: it must be between 3 and 16"));
  EXPECT_THAT(plan_refusal([](Plan& plan) { plan.stages = 17; }), HasSubstr("stages is 17"));
  EXPECT_THAT(plan_refusal([](Plan& plan) { plan.chunk_bytes = 255; }),
              HasSubstr("chunk_bytes is 255: it must be at least the 256 bytes of a head"));
  EXPECT_THAT(plan_refusal([](Plan& plan) {
                plan.chunk_bytes = 32768;
                plan.stages = 8;
              }),
              AllOf(HasSubstr("stages * chunk_bytes is 245760"), HasSubstr("229376 bytes of shared memory")));
  EXPECT_THAT(plan_refusal([](Plan& plan) { plan.issuers = 133; }),
              AllOf(HasSubstr("issuers is 133"), HasSubstr("132 multiprocessors")));
  EXPECT_THAT(plan_refusal([](Plan& plan) { plan.issuers = -1; }), HasSubstr("issuers is -1"));
  EXPECT_THAT(plan_refusal([](Plan& plan) { plan.issuers = 513; }), HasSubstr("between 1 and 512"));
  EXPECT_THAT(plan_refusal([](Plan& plan) {
                plan.issuers = 10;
                plan.peer_issuers = 11;
              }),
              HasSubstr("peer_issuers is 11: it must be at most the 10 CTAs"));
  EXPECT_THAT(plan_refusal([](Plan& plan) { plan.peer_issuers = 1; }, 1), HasSubstr("one rank has no peers"));
}

TEST(AllToAllPlan, BoxesHaveALimit) {
  Plan plan;
  plan.transfer = Transfer::boxes;
  EXPECT_THAT(complaint([&] {
                std::ignore = complete_plan({1, 64, 4, 264}, plan, 2, multiprocessors);
              }),
              HasSubstr("at most 256 heads of at most 256 elements"));
  EXPECT_EQ(complete_plan({1, 64, 4, 256}, plan, 2, multiprocessors).transfer, Transfer::boxes);
}

TEST(AllToAllPlan, ShortRowsGoAsBoxes) {
  EXPECT_EQ(make_plan({1, 2048, 24, 128}, 2, multiprocessors).transfer, Transfer::rows);
  EXPECT_EQ(make_plan({1, 2048, 2, 64}, 2, multiprocessors).transfer, Transfer::boxes);
  EXPECT_EQ(make_plan({1, 2048, 2, 264}, 2, multiprocessors).transfer, Transfer::rows) << "does not fit a box";
}

TEST(AllToAllPlan, SmallVolumesGoInSmallChunks) {
  EXPECT_EQ(make_plan({1, 65536, 24, 128}, 2, multiprocessors).chunk_bytes, 12288);
  EXPECT_EQ(make_plan({1, 1000, 24, 128}, 2, multiprocessors).chunk_bytes, 6144);
  EXPECT_EQ(make_plan({1, 100, 24, 128}, 2, multiprocessors).chunk_bytes, 3072);
  EXPECT_EQ(make_plan({1, 4, 8, 1024}, 2, multiprocessors).chunk_bytes, 3072) << "whole heads of 2 KiB";
}

TEST(AllToAllPlan, IssuersHaveChunksAndBothTasks) {
  for (const int world : {1, 2, 3, 4, 6, 8}) {
    for (const std::int64_t rows : {1, 2, 9, 100, 2048, 65536}) {
      const Problem problem{1, rows, 24, 128};
      const Plan plan = make_plan(problem, world, multiprocessors);
      EXPECT_LE(plan.issuers, multiprocessors);
      EXPECT_LE(plan.issuers, make_schedule(problem, plan, 0, world).chunks());
      if (world == 1) {
        EXPECT_EQ(plan.peer_issuers, 0);
      } else {
        EXPECT_GE(plan.peer_issuers, 1);
        EXPECT_TRUE(plan.issuers == 1 || plan.peer_issuers < plan.issuers) << rows << " rows on " << world;
      }
    }
  }
}

TEST(AllToAllPlan, AllRanksCountAsManyChunks) {
  for (const int world : {2, 5, 8}) {
    const Problem problem{3, 37, 40, 64};
    const Plan plan = make_plan(problem, world, multiprocessors);
    for (int rank = 1; rank < world; ++rank) {
      EXPECT_EQ(make_schedule(problem, plan, rank, world).chunks(), make_schedule(problem, plan, 0, world).chunks());
    }
  }
}

TEST(AllToAllPlan, FewerIssuersShareTheTasksAlike) {
  Plan plan;
  plan.issuers = 132;
  plan.peer_issuers = 105;
  for (const int issuers : {1, 2, 3, 16, 33, 66, 131}) {
    const Plan smaller = with_issuers(plan, issuers);
    EXPECT_EQ(smaller.issuers, issuers);
    EXPECT_GE(smaller.peer_issuers, 1);
    EXPECT_TRUE(issuers == 1 || smaller.peer_issuers < issuers) << issuers;
  }
  EXPECT_EQ(with_issuers(plan, 66).peer_issuers, 53);
  plan.peer_issuers = 132;
  EXPECT_EQ(with_issuers(plan, 33).peer_issuers, 33) << "all of them do both";
  plan.peer_issuers = 0;
  EXPECT_EQ(with_issuers(plan, 33).peer_issuers, 0) << "one rank";
}

TEST(AllToAllPlan, StagesHoldAChunk) {
  Plan plan;
  plan.chunk_bytes = 5000;
  const Plan whole_rows = complete_plan({1, 64, 4, 72}, plan, 2, multiprocessors);  // 17 rows of 288 bytes
  EXPECT_EQ(stage_bytes({1, 64, 4, 72}, whole_rows, 2), (17 * 288 + 127) / 128 * 128);
  const Plan parts = complete_plan({1, 64, 80, 128}, plan, 2, multiprocessors);  // 19 of 40 heads
  EXPECT_EQ(stage_bytes({1, 64, 80, 128}, parts, 2), 19 * 256);
  plan.chunk_bytes = 12288;
  const Plan tiny_rows = complete_plan({1, 4096, 2, 8}, plan, 2, multiprocessors);  // a box has at most 256 rows
  EXPECT_EQ(stage_bytes({1, 4096, 2, 8}, tiny_rows, 2), 256 * 16);
}

TEST(AllToAllPlan, RanksThatDisagreeSaySo) {
  const Plan plan = make_plan(valid(), 2, multiprocessors);
  const std::string stated = statement(valid(), plan);
  const std::function<void(Problem&)> changes[] = {
      [](Problem& problem) { problem.sequences += 1; }, [](Problem& problem) { problem.rows += 1; },
      [](Problem& problem) { problem.heads += 2; }, [](Problem& problem) { problem.head_dim += 8; }};
  for (const auto& change : changes) {
    Problem problem = valid();
    change(problem);
    EXPECT_NE(statement(problem, plan), stated);
  }
  Plan other = plan;
  other.peer_issuers -= 1;  // each of them posts once: peers count
  EXPECT_NE(statement(valid(), other), stated);
}

}  // namespace
}  // namespace xstage::all_to_all::problem_test
