// Plans of a mixture-of-experts layer.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "ops/moe/problem.hpp"
#include "xstage/error.hpp"

namespace xstage::moe::plan_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Problem valid() { return {2048, 768, 16, 8, 1024, 0}; }

template <typename Function>
std::string refusal(Function&& function) {
  try {
    function();
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(MoePlan, OneCtaForEachMultiprocessor) {
  EXPECT_EQ(make_plan(valid(), 2, 132).issuers, 132);
  EXPECT_EQ(make_plan(valid(), 8, 114).issuers, 114);
  EXPECT_EQ(make_plan(valid(), 1, 132).schedule, Schedule::unfused);
  EXPECT_EQ(make_plan(valid(), 2, 600).issuers, 512) << "each CTA has an epoch in the signal pad";
}

TEST(MoePlan, KeepsWhatIsSaid) {
  Plan plan;
  plan.issuers = 7;
  EXPECT_EQ(complete_plan(valid(), plan, 2, 132).issuers, 7);
  plan.issuers = 132;
  EXPECT_EQ(complete_plan(valid(), plan, 2, 132).issuers, 132);
}

TEST(MoePlan, RefusesWhatBreaksARule) {
  const auto refusal_of = [](int issuers) {
    Plan plan;
    plan.issuers = issuers;
    return refusal([&] { static_cast<void>(complete_plan(valid(), plan, 2, 132)); });
  };
  EXPECT_THAT(refusal_of(-1), AllOf(HasSubstr("issuers is -1"), HasSubstr("between 1 and 512, or 0 for the rule")));
  EXPECT_THAT(refusal_of(133), AllOf(HasSubstr("issuers is 133"), HasSubstr("132 multiprocessors")));
  Plan plan;
  plan.schedule = static_cast<Schedule>(9);
  EXPECT_THAT(refusal([&] { static_cast<void>(complete_plan(valid(), plan, 2, 132)); }),
              HasSubstr("schedule is 9: it must be unfused"));
  plan = {};
  plan.combine = static_cast<Combine>(7);
  EXPECT_THAT(refusal([&] { static_cast<void>(complete_plan(valid(), plan, 2, 132)); }),
              HasSubstr("combine is 7: it must be partial_sums or rows"));
  Problem problem = valid();
  problem.hidden = 100;
  EXPECT_THAT(refusal([&] { static_cast<void>(make_plan(problem, 2, 132)); }), HasSubstr("hidden is 100"));
}

TEST(MoePlan, FillsInWarpsAndGroups) {
  Problem problem = valid();
  const Plan two = make_plan(problem, 2, 132);
  EXPECT_EQ(two.dispatch_senders, 2);
  EXPECT_EQ(two.dispatch_copiers, 8);
  EXPECT_EQ(two.combine_senders, 5);
  EXPECT_EQ(two.combine_sender_groups, 2) << "rows of 4 KiB";
  EXPECT_EQ(two.combine_adder_groups, 5) << "ten warps";
  EXPECT_EQ(two.linear1_tile_columns, 0) << "each launch picks them from its tokens";
  problem.hidden = 7168;
  EXPECT_EQ(make_plan(problem, 8, 132).combine_sender_groups, 1) << "rows of 14 KiB";
  const Plan alone = make_plan(problem, 1, 132);
  EXPECT_EQ(alone.dispatch_senders, 8);
  EXPECT_EQ(alone.dispatch_copiers, 0);
  EXPECT_EQ(alone.combine_senders, 0);
  EXPECT_EQ(alone.combine_sender_groups, 0);
  EXPECT_EQ(alone.combine_adder_groups, 3) << "sixteen warps, five for a row";
  Plan rows;
  rows.combine = Combine::rows;
  rows = complete_plan(problem, rows, 2, 132);
  EXPECT_EQ(rows.combine_senders, 1);
  EXPECT_EQ(rows.combine_sender_groups, 0);
}

TEST(MoePlan, ACompletePlanIsCompletedToItself) {
  for (const int world : {1, 2, 8}) {
    for (const Combine combine : {Combine::partial_sums, Combine::rows}) {
      Plan plan;
      plan.combine = combine;
      const Plan once = complete_plan(valid(), plan, world, 132);
      EXPECT_EQ(statement(valid(), once), statement(valid(), complete_plan(valid(), once, world, 132)));
    }
  }
}

TEST(MoePlan, RefusesWarpsThatAreNotThere) {
  const auto refusal_of = [](const auto& change, int world = 2) {
    Plan plan;
    change(plan);
    return refusal([&] { static_cast<void>(complete_plan(valid(), plan, world, 132)); });
  };
  EXPECT_THAT(refusal_of([](Plan& plan) { plan.dispatch_senders = 9; }),
              AllOf(HasSubstr("dispatch_senders is 9"), HasSubstr("between 1 and 8")));
  EXPECT_THAT(refusal_of([](Plan& plan) {
                plan.dispatch_senders = 8;
                plan.dispatch_copiers = 8;
              }),
              AllOf(HasSubstr("dispatch_senders + dispatch_copiers is 8 + 8"), HasSubstr("at most 15")));
  EXPECT_THAT(refusal_of(
                  [](Plan& plan) {
                    plan.dispatch_senders = 5;
                    plan.dispatch_copiers = 1;
                  },
                  8),
              AllOf(HasSubstr("dispatch_senders is 5"), HasSubstr("at most 4 senders of 7 peers")));
  EXPECT_THAT(refusal_of([](Plan& plan) { plan.dispatch_copiers = 3; }, 1),
              HasSubstr("dispatch_copiers is 3: it must be 0 for a rank alone"));
  EXPECT_THAT(refusal_of([](Plan& plan) { plan.combine_senders = 1; }, 1), HasSubstr("combine_senders is 1"));
  EXPECT_THAT(refusal_of([](Plan& plan) { plan.combine_sender_groups = 6; }),
              AllOf(HasSubstr("combine_sender_groups is 6"), HasSubstr("at most combine_senders, 5")));
  EXPECT_THAT(refusal_of([](Plan& plan) {
                plan.combine = Combine::rows;
                plan.combine_sender_groups = 1;
              }),
              AllOf(HasSubstr("combine_sender_groups is 1"), HasSubstr("combine=rows")));
  EXPECT_THAT(refusal_of([](Plan& plan) { plan.combine_adder_groups = 11; }),
              AllOf(HasSubstr("combine_adder_groups is 11"), HasSubstr("at most 10, the warps that add beside 5")));
  EXPECT_THAT(refusal_of([](Plan& plan) { plan.linear1_tile_columns = 64; }),
              AllOf(HasSubstr("linear1_tile_columns is 64"), HasSubstr("128 or 256")));
}

/// A flag counts tokens of one CTA in 21 bits.
TEST(MoePlan, NotMoreTokensForACtaThanAFlagCounts) {
  Problem problem = valid();
  problem.top_k = 1;
  problem.most_tokens = std::int64_t{1} << 24U;
  EXPECT_NO_THROW(check_issuers(problem, 9));
  EXPECT_THAT(refusal([&] { check_issuers(problem, 8); }),
              AllOf(HasSubstr("8 issuers for most_tokens 16777216"), HasSubstr("2097152 tokens")));
  EXPECT_NO_THROW(check_issuers(valid(), 1));
}

}  // namespace
}  // namespace xstage::moe::plan_test
