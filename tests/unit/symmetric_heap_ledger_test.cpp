/// Ranks that make different calls are told apart at the call.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "heap/collective_ledger.hpp"
#include "xstage/error.hpp"

namespace xstage::memory::symmetric_heap_ledger_test {
namespace {

using testing::HasSubstr;

CollectiveStep states(const std::string& what) { return {StepKind::agree, what}; }

template <typename Call>
std::string complaint(Call&& call) {
  try {
    call();
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(CollectiveLedger, RanksMayTakeTheirStepsAtAnyTime) {
  CollectiveLedger ledger(3);
  for (int step = 0; step < 4; ++step) {
    ledger.advance(2, states(std::to_string(step)));
  }
  for (int step = 0; step < 4; ++step) {
    ledger.advance(0, states(std::to_string(step)));
    ledger.advance(1, states(std::to_string(step)));
  }
  EXPECT_EQ(ledger.steps(1), 4U);
  ledger.check_complete();
}

TEST(CollectiveLedger, NamesBothRanksTheStepAndBothValues) {
  CollectiveLedger ledger(2);
  for (const char* what : {"'a'", "'b'", "'gemm m=4096'"}) {
    ledger.advance(0, states(what));
  }
  ledger.advance(1, states("'a'"));
  ledger.advance(1, states("'b'"));
  EXPECT_EQ(complaint([&] { ledger.advance(1, states("'gemm m=2048'")); }),
            "rank 1 states 'gemm m=2048' as its 3rd step, rank 0 stated 'gemm m=4096': every rank must make the same "
            "calls in the same order");
}

TEST(CollectiveLedger, CallsOfDifferentKindsDiffer) {
  CollectiveLedger ledger(2);
  ledger.advance(1, {StepKind::allocate, "same words"});
  EXPECT_THAT(complaint([&] { ledger.advance(0, states("same words")); }),
              HasSubstr("rank 0 states same words as its 1st step, rank 1 allocated same words"));
}

TEST(CollectiveLedger, ARankThatDisagreedMayStillMakeTheRightCall) {
  CollectiveLedger ledger(2);
  ledger.advance(0, states("a"));
  EXPECT_THROW(ledger.check(1, states("b")), InputError);
  EXPECT_THROW(ledger.advance(1, states("b")), InputError);
  EXPECT_EQ(ledger.steps(1), 0U);
  ledger.advance(1, states("a"));
  ledger.check_complete();
}

TEST(CollectiveLedger, CheckTakesNoStep) {
  CollectiveLedger ledger(2);
  ledger.check(0, states("a"));
  EXPECT_EQ(ledger.steps(0), 0U);
  ledger.advance(1, states("b"));  // so rank 0 did not define this step
  ledger.check_reached(0);
}

TEST(CollectiveLedger, StepsCountOnAfterHistoryIsForgotten) {
  CollectiveLedger ledger(2);
  for (int step = 0; step < 111; ++step) {
    ledger.advance(step % 2, states(std::to_string(step)));
    ledger.advance(1 - step % 2, states(std::to_string(step)));
  }
  ledger.advance(1, states("x"));
  EXPECT_THAT(complaint([&] { ledger.advance(0, states("y")); }),
              HasSubstr("rank 0 states y as its 112th step, rank 1 stated x"));
  ledger.advance(0, states("x"));
  EXPECT_EQ(ledger.steps(0), 112U);
}

TEST(CollectiveLedger, OrdinalsAreEnglish) {
  CollectiveLedger ledger(2);
  const auto ordinal = [&](int step, const std::string& text) {
    while (ledger.steps(0) < static_cast<std::size_t>(step)) {
      ledger.advance(0, states("a"));
    }
    while (ledger.steps(1) + 1 < static_cast<std::size_t>(step)) {
      ledger.advance(1, states("a"));
    }
    EXPECT_THAT(complaint([&] { ledger.check(1, states("b")); }), HasSubstr("as its " + text + " step"));
  };
  ordinal(1, "1st");
  ordinal(2, "2nd");
  ordinal(4, "4th");
  ordinal(11, "11th");
  ordinal(13, "13th");
  ordinal(21, "21st");
  ordinal(23, "23rd");
  ordinal(112, "112th");
}

TEST(CollectiveLedger, SaysWhichRanksAreBehindAndWhatTheyLack) {
  CollectiveLedger ledger(3);
  ledger.advance(0, states("a"));
  ledger.advance(1, states("a"));
  ledger.advance(2, states("a"));
  ledger.advance(0, states("b"));
  ledger.advance(0, {StepKind::allocate, "'workspace'"});
  ledger.advance(2, states("b"));
  EXPECT_EQ(complaint([&] { ledger.check_complete(); }),
            "rank 1 has made 1 of 3 collective calls, rank 2 has made 2 of 3 collective calls; rank 1 lacks its 2nd "
            "step, where rank 0 stated b: every rank must make the same calls in the same order, before the first "
            "launch");
}

TEST(CollectiveLedger, WhoNeedsFewerStepsIsNotStoppedByLaterOnes) {
  CollectiveLedger ledger(2);
  ledger.advance(0, states("a"));
  ledger.advance(1, states("a"));
  ledger.advance(0, states("b"));
  ledger.check_reached(1);
  EXPECT_THROW(ledger.check_reached(2), InputError);
}

TEST(CollectiveLedger, TheFirstRankAtAStepDecidesForAll) {
  CollectiveLedger ledger(2);
  EXPECT_EQ(ledger.decision(0), nullptr);
  ledger.advance(0, states("a"), {3, 5});
  EXPECT_EQ(ledger.decision(0), nullptr);  // its next step is still to be defined
  ASSERT_NE(ledger.decision(1), nullptr);
  EXPECT_EQ(*ledger.decision(1), (std::vector<std::size_t>{3, 5}));
  ledger.advance(1, states("a"), {7});
  EXPECT_EQ(ledger.decision(1), nullptr);
}

TEST(CollectiveLedger, OneRankAgreesWithItself) {
  CollectiveLedger ledger(1);
  ledger.advance(0, states("a"));
  ledger.advance(0, states("b"));
  ledger.check_complete();
}

}  // namespace
}  // namespace xstage::memory::symmetric_heap_ledger_test
