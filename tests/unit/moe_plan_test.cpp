// Plans of a mixture-of-experts layer.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "moe/problem.hpp"
#include "xstage/error.hpp"

namespace xstage::moe {
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
}  // namespace xstage::moe
