// Plans of an attention: the rule gives a valid one for every shape, and a field that breaks a rule is named.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>

#include "ops/attention/problem.hpp"
#include "xstage/attention.hpp"
#include "xstage/error.hpp"

namespace xstage::attention::plan_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int multiprocessors = 132;

Problem of_length(std::int64_t length, int heads, int kv_heads, bool causal = false) {
  Problem problem;
  problem.rows = length;
  problem.keys = length;
  problem.heads = heads;
  problem.kv_heads = kv_heads;
  problem.causal = causal;
  return problem;
}

template <typename Change>
Plan completed(const Problem& problem, int world, Change&& change) {
  Plan plan;
  change(plan);
  return complete_plan(problem, plan, world, multiprocessors);
}

template <typename Change>
std::string refusal(const Problem& problem, int world, Change&& change, int of_gpu = multiprocessors) {
  Plan plan;
  change(plan);
  try {
    static_cast<void>(complete_plan(problem, plan, world, of_gpu));
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

void expect_valid(const Problem& problem, const Plan& plan, int world) {
  const std::int32_t tiles = make_schedule(problem, 0, world).tiles();
  EXPECT_EQ(plan.store_path, StorePath::bulk);
  EXPECT_GE(plan.issuers, 1);
  EXPECT_LE(plan.issuers, multiprocessors);
  EXPECT_TRUE(plan.split == 0 || (plan.split == 1 && !problem.causal)) << plan.split;
  if (plan.split == 1) {
    EXPECT_NE(tiles % plan.issuers, 0);  // there is something to split
  } else {
    EXPECT_LE(plan.issuers, tiles);
  }
  // What was completed once stays.
  EXPECT_EQ(statement(problem, complete_plan(problem, plan, world, multiprocessors)), statement(problem, plan));
}

TEST(AttentionPlan, TheRuleGivesValidPlansForEveryShape) {
  std::mt19937 bits(7);
  const auto up_to = [&bits](int most) { return 1 + static_cast<int>(bits() % static_cast<std::uint32_t>(most)); };
  for (int round = 0; round < 500; ++round) {
    for (const int world : {1, 2, 3, 4, 8}) {
      const int kv_heads = world * up_to(8);
      Problem problem = of_length(round % 4 == 0 ? up_to(400) : up_to(140000), kv_heads * up_to(6), kv_heads);
      problem.sequences = up_to(5);
      problem.head_dim = round % 2 == 0 ? 64 : 128;
      problem.causal = round % 3 == 0;
      if (!problem.causal) {
        problem.keys = up_to(140000);
      }
      SCOPED_TRACE(statement(problem, {}) + " on " + std::to_string(world) + " ranks");
      expect_valid(problem, make_plan(problem, world, multiprocessors), world);
    }
  }
}

TEST(AttentionPlan, TheLongestProblemIsPlanned) {
  Problem problem = of_length((1 << 30) - 1, 1, 1);
  expect_valid(problem, make_plan(problem, 1, multiprocessors), 1);
  problem = of_length(1, 8, 8);
  problem.sequences = 1 << 27;
  expect_valid(problem, make_plan(problem, 1, multiprocessors), 1);
  EXPECT_EQ(make_schedule(problem, 0, 1).tiles(), 1 << 30);
}

TEST(AttentionPlan, AProblemThatBreaksARuleHasNone) {
  EXPECT_THROW(static_cast<void>(make_plan(of_length(0, 8, 8), 2, multiprocessors)), InputError);
}

/// Eight tiles, one for each head, with so many blocks of keys.
Problem of_blocks(int blocks) {
  Problem problem = of_length(tile_rows, 8, 8);
  problem.keys = std::int64_t{blocks} * block_keys;
  return problem;
}

int split_of(const Problem& problem, int world, int issuers) {
  return completed(problem, world, [issuers](Plan& plan) { plan.issuers = issuers; }).split;
}

/// Eight tiles on ten CTAs: split, they take 8 / 10 of the blocks of one, which saves 4 of 20.
TEST(AttentionPlan, TilesAreSplitWhereThatSavesMoreThanFourBlocks) {
  Problem problem = of_blocks(20);
  EXPECT_EQ(split_of(problem, 1, 10), 0);
  problem.keys += 1;
  EXPECT_EQ(split_of(problem, 1, 10), 1);
  problem.rows = 6 * tile_rows;  // four rounds and eight tiles
  EXPECT_EQ(split_of(problem, 1, 10), 1);
  problem.rows = 5 * tile_rows;  // four rounds and nothing left
  EXPECT_EQ(split_of(problem, 1, 10), 0);
  EXPECT_EQ(split_of(of_blocks(4), 1, 10), 0);
  EXPECT_EQ(split_of(of_blocks(1000), 1, 8), 0);
  EXPECT_EQ(split_of(of_blocks(1000), 1, 1), 0);
}

TEST(AttentionPlan, TheSplitCountsTheTilesOfOneRank) {
  EXPECT_EQ(split_of(of_blocks(1000), 1, 4), 0);
  EXPECT_EQ(split_of(of_blocks(1000), 2, 4), 0);
  EXPECT_EQ(split_of(of_blocks(1000), 4, 4), 1);
  EXPECT_EQ(split_of(of_blocks(1000), 8, 1), 0);
}

TEST(AttentionPlan, CausalTilesAreNotSplit) {
  Problem problem = of_length(100 * block_keys, 8, 8);
  EXPECT_EQ(split_of(problem, 1, 131), 1);
  problem.causal = true;
  EXPECT_EQ(split_of(problem, 1, 131), 0);
}

TEST(AttentionPlan, AChoiceOfSplitStays) {
  const auto chosen = [](const Problem& problem, int split) {
    return completed(problem, 1, [split](Plan& plan) { plan.split = split; }).split;
  };
  for (const int split : {0, 1}) {
    EXPECT_EQ(chosen(of_blocks(1), split), split);
    EXPECT_EQ(chosen(of_blocks(1000), split), split);
  }
}

int issuers_of(const Problem& problem, int world, int split, int of_gpu = multiprocessors) {
  Plan plan;
  plan.split = split;
  return complete_plan(problem, plan, world, of_gpu).issuers;
}

TEST(AttentionPlan, OneCtaAMultiprocessorAndNoneWithoutATile) {
  const Problem short_one = of_length(2 * tile_rows + 1, 8, 8);  // three row tiles
  EXPECT_EQ(issuers_of(short_one, 1, -1), 3 * 8);
  EXPECT_EQ(issuers_of(short_one, 4, -1), 3 * 2);
  EXPECT_EQ(issuers_of(short_one, 4, 0), 3 * 2);
  const Problem long_one = of_length(40000, 8, 8);
  EXPECT_EQ(issuers_of(long_one, 1, -1, 131), 131);
  EXPECT_EQ(issuers_of(long_one, 1, 0, 131), 131);
  EXPECT_EQ(issuers_of(long_one, 1, 0, 1000), 512);  // no more epochs in the signal pad
  EXPECT_EQ(issuers_of(long_one, 1, 1, 1000), 512);
}

/// A problem with fewer tiles than multiprocessors, but long ones.
TEST(AttentionPlan, SplitTilesAreForAllMultiprocessors) {
  const Problem problem = of_blocks(100);
  EXPECT_EQ(issuers_of(problem, 1, 0), 8);
  EXPECT_EQ(issuers_of(problem, 1, 1), multiprocessors);
  EXPECT_EQ(issuers_of(problem, 1, -1), multiprocessors);
  EXPECT_EQ(issuers_of(problem, 1, -1, 8), 8);
}

TEST(AttentionPlan, AFieldThatBreaksARuleIsNamed) {
  const Problem problem = of_length(4096, 8, 8);
  const auto refused = [&](auto change) { return refusal(problem, 2, change); };
  EXPECT_EQ(refused([](Plan& plan) { plan.store_path = StorePath::store16; }), "");
  EXPECT_THAT(refused([](Plan& plan) { plan.store_path = StorePath::store4; }),
              AllOf(HasSubstr(std::string(name_of(StorePath::store4))), HasSubstr("it must be store16 or bulk")));
  EXPECT_THAT(refused([](Plan& plan) { plan.store_path = StorePath::store8; }), HasSubstr("store_path is"));
  EXPECT_THAT(refused([](Plan& plan) { plan.split = 2; }), HasSubstr("split is 2: it must be 0 or 1, or -1"));
  EXPECT_THAT(refused([](Plan& plan) { plan.split = -2; }), HasSubstr("split is -2: it must be 0 or 1, or -1"));
  EXPECT_EQ(refused([](Plan& plan) { plan.split = 1; }), "");
  EXPECT_THAT(refused([](Plan& plan) { plan.issuers = -1; }),
              HasSubstr("issuers is -1: it must be between 1 and 512, or 0 for the rule"));
  EXPECT_EQ(refused([](Plan& plan) { plan.issuers = 1; }), "");
}

TEST(AttentionPlan, SplitCausalTilesAreRefused) {
  const auto refused = [](int split) {
    return refusal(of_length(4096, 8, 8, true), 2, [split](Plan& plan) { plan.split = split; });
  };
  EXPECT_THAT(refused(1), HasSubstr("split is 1: causal attention needs 0"));
  EXPECT_EQ(refused(0), "");
  EXPECT_EQ(refused(-1), "");
}

/// CTAs beyond those that are resident together would wait for each other, and have no epoch in the signal pad.
TEST(AttentionPlan, NoMoreCtasThanMultiprocessorsAndEpochs) {
  const Problem problem = of_length(4096, 8, 8);
  const auto with_issuers = [&](int issuers, int of_gpu) {
    return refusal(
        problem, 2, [issuers](Plan& plan) { plan.issuers = issuers; }, of_gpu);
  };
  EXPECT_EQ(with_issuers(132, 132), "");
  EXPECT_THAT(with_issuers(133, 132), HasSubstr("issuers is 133: there may be no more CTAs than the 132"));
  EXPECT_EQ(with_issuers(512, 1000), "");
  EXPECT_THAT(with_issuers(513, 1000), HasSubstr("issuers is 513: it must be between 1 and 512"));
}

TEST(AttentionPlan, SchedulesHaveTheShapeOfOneRank) {
  Problem problem = of_length(1000, 32, 8);
  problem.sequences = 3;
  problem.keys = 777;
  const schedule::AttentionSchedule schedule = make_schedule(problem, 1, 4);
  EXPECT_EQ(schedule.shape().sequences, 3);
  EXPECT_EQ(schedule.shape().rows, 1000);
  EXPECT_EQ(schedule.shape().keys, 777);
  EXPECT_EQ(schedule.shape().heads, 8);
  EXPECT_EQ(schedule.shape().group, 4);
  EXPECT_EQ(schedule.shape().causal, 0);
  EXPECT_EQ(schedule.tiling().tile_rows, tile_rows);
  EXPECT_EQ(schedule.tiling().block_keys, block_keys);
  EXPECT_EQ(schedule.tiles(), 6 * 8 * 3);
  EXPECT_EQ(schedule.key_blocks(), 7);
  problem.causal = true;
  problem.keys = 1000;
  EXPECT_EQ(make_schedule(problem, 1, 4).shape().causal, 1);
}

}  // namespace
}  // namespace xstage::attention::plan_test
