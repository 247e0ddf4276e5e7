/// What a mistyped word was meant to be.

#include "cli/nearest.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace xstage::cli::cli_nearest_test {
namespace {

const std::vector<std::string> known = {"--producers", "--bytes", "--gap", "--bursts", "--platform"};

TEST(CliNearest, FindsSlipsOfAFewCharacters) {
  EXPECT_EQ(nearest("--producer", known), "--producers");
  EXPECT_EQ(nearest("--prodcuers", known), "--producers");
  EXPECT_EQ(nearest("--byte", known), "--bytes");
  EXPECT_EQ(nearest("--platfrom", known), "--platform");
}

TEST(CliNearest, AKnownWordIsItsOwnNearest) {
  for (const std::string& word : known) {
    EXPECT_EQ(nearest(word, known), word);
  }
}

TEST(CliNearest, OfTwoTheOneWithFewerSlips) {
  EXPECT_EQ(nearest("--burst", known), "--bursts");
  EXPECT_EQ(nearest("--bytess", known), "--bytes");
}

TEST(CliNearest, NothingIsNearToAnotherWord) {
  EXPECT_EQ(nearest("--temperature", known), "");
  EXPECT_EQ(nearest("--gap", {}), "");
  EXPECT_EQ(nearest(std::string(100000, '-'), known), "");
}

}  // namespace
}  // namespace xstage::cli::cli_nearest_test
