/// Bytes, gaps and numbers as a user writes and reads them.

#include "cli/quantities.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "cli/exit_code.hpp"

namespace xstage::cli {
namespace {

TEST(CliBytes, TakesPlainNumbersAndBinarySuffixes) {
  EXPECT_EQ(parse_bytes("--bytes", "32768"), 32768);
  EXPECT_EQ(parse_bytes("--bytes", "32KiB"), 32768);
  EXPECT_EQ(parse_bytes("--bytes", "1.5MiB"), 1572864);
  EXPECT_EQ(parse_bytes("--bytes", "1GiB"), 1073741824);
  EXPECT_EQ(parse_bytes("--bytes", "64B"), 64);
}

class CliBadBytes : public testing::TestWithParam<const char*> {};

TEST_P(CliBadBytes, IsAUsageErrorThatNamesOptionValueAndRule) {
  try {
    static_cast<void>(parse_bytes("--bytes", GetParam()));
    FAIL() << "accepted";
  } catch (const UsageError& error) {
    const std::string message = error.what();
    EXPECT_EQ(message.find("--bytes '" + std::string(GetParam()) + "'"), 0U) << message;
    EXPECT_NE(message.find("whole number of bytes"), std::string::npos) << message;
  }
}

INSTANTIATE_TEST_SUITE_P(Each, CliBadBytes,
                         testing::Values("", "KiB", "-1", "0", "1.5", "0.3KiB", "32KB", "32 KiB", "nan", "inf", "0x10",
                                         "1e400", "2e15", "99999999999999999999", "12abc", "1e-3"));

TEST(CliGaps, TakesOneGapOrARangeWithBothEnds) {
  EXPECT_EQ(parse_gaps("--gap", "12.5"), std::vector<double>{12.5});
  EXPECT_EQ(parse_gaps("--gap", "0:4:2"), (std::vector<double>{0, 2, 4}));
  EXPECT_EQ(parse_gaps("--gap", "0:5:2"), (std::vector<double>{0, 2, 4}));
  EXPECT_EQ(parse_gaps("--gap", "0:1:0.1").size(), 11U);
  EXPECT_EQ(parse_gaps("--gap", "3:3:1"), std::vector<double>{3});
}

class CliBadGap : public testing::TestWithParam<const char*> {};

TEST_P(CliBadGap, IsAUsageError) { EXPECT_THROW(static_cast<void>(parse_gaps("--gap", GetParam())), UsageError); }

INSTANTIATE_TEST_SUITE_P(Each, CliBadGap,
                         testing::Values("", "-1", "nan", "1:2", "2:1:1", "0:1:0", "0:1:-1", "0:1:1:1", "a:b:c",
                                         "0:1e9:1", "0:1e308:1e-300", ":::", "1::2"));

TEST(CliNumbers, SayWhatIsMissingOrUnlimited) {
  EXPECT_EQ(fixed(1.005, 1), "1.0");
  EXPECT_EQ(fixed(std::numeric_limits<double>::quiet_NaN(), 1), "-");
  EXPECT_EQ(fixed(std::numeric_limits<double>::infinity(), 1), "unlimited");
  EXPECT_EQ(margin(2.5, 1), "+2.5");
  EXPECT_EQ(margin(-2.5, 1), "-2.5");
  EXPECT_EQ(percent(0.1234), "12.3%");
  EXPECT_EQ(percent(std::numeric_limits<double>::quiet_NaN()), "-");
  EXPECT_EQ(bytes_text(32768), "32 KiB");
  EXPECT_EQ(bytes_text(4325376), "4.125 MiB");
  EXPECT_EQ(bytes_text(100), "100 bytes");
}

}  // namespace
}  // namespace xstage::cli
