/// Bytes, gaps and numbers as a user writes and reads them.

#include "cli/quantities.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "cli/exit_code.hpp"

namespace xstage::cli::cli_quantities_test {
namespace {

TEST(CliBytes, TakesPlainNumbersAndBinarySuffixes) {
  EXPECT_EQ(parse_bytes("--bytes", "32768"), 32768);
  EXPECT_EQ(parse_bytes("--bytes", "32KiB"), 32768);
  EXPECT_EQ(parse_bytes("--bytes", "1.5MiB"), 1572864);
  EXPECT_EQ(parse_bytes("--bytes", "1GiB"), 1073741824);
  EXPECT_EQ(parse_bytes("--bytes", "64B"), 64);
  EXPECT_EQ(parse_bytes("--bytes", "16k"), 16384);
  EXPECT_EQ(parse_bytes("--bytes", "16K"), 16384);
  EXPECT_EQ(parse_bytes("--bytes", "2M"), 2097152);
  EXPECT_EQ(parse_bytes("--bytes", "1g"), 1073741824);
  EXPECT_EQ(parse_bytes("--bytes", "010"), 10);
}

TEST(CliShare, IsAPercentageOrAFraction) {
  EXPECT_EQ(parse_share("--max-stall", "5%"), 0.05);
  EXPECT_EQ(parse_share("--max-stall", "0.05"), 0.05);
  EXPECT_EQ(parse_share("--max-error", "0"), 0);
  EXPECT_EQ(parse_share("--max-error", "250%"), 2.5);
}

TEST(CliShare, RefusesWhatIsNone) {
  for (const char* text : {"", "%", "-1%", "-0.5", "5 %", "5%%", "nan", "inf", "0x1", "five"}) {
    EXPECT_THROW(static_cast<void>(parse_share("--max-stall", text)), UsageError) << text;
  }
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
                                         "1e400", "2e15", "99999999999999999999", "12abc", "1e-3", "32kB", "32kk",
                                         "0x10k"));

TEST(CliLists, HaveOneValueOrARangeWithBothEnds) {
  EXPECT_EQ(parse_gaps("--gap", "12.5"), std::vector<double>{12.5});
  EXPECT_EQ(parse_gaps("--gap", "0:4:2"), (std::vector<double>{0, 2, 4}));
  EXPECT_EQ(parse_gaps("--gap", "0:5:2"), (std::vector<double>{0, 2, 4}));
  EXPECT_EQ(parse_gaps("--gap", "0:1:0.1").size(), 11U);
  EXPECT_EQ(parse_gaps("--gap", "3:3:1"), std::vector<double>{3});
  EXPECT_EQ(parse_byte_sizes("--bytes", "16KiB:48k:16384"), (std::vector<double>{16384, 32768, 49152}));
  EXPECT_EQ(parse_producers("--producers", "8:32:8"), (std::vector<int>{8, 16, 24, 32}));
}

TEST(CliLists, HaveRangesThatMultiply) {
  EXPECT_EQ(parse_byte_sizes("--bytes", "16k:256k:x2"), (std::vector<double>{16384, 32768, 65536, 131072, 262144}));
  EXPECT_EQ(parse_producers("--producers", "8:100:x2"), (std::vector<int>{8, 16, 32, 64}));
  EXPECT_EQ(parse_producers("--producers", "4:9:x1.5"), (std::vector<int>{4, 6, 9}));
  EXPECT_EQ(parse_gaps("--gap", "0.1:0.8:x2").size(), 4U);
  EXPECT_EQ(parse_gaps("--gap", "5:5:x10"), std::vector<double>{5});
}

TEST(CliLists, HaveCommasBetweenValuesAndRanges) {
  EXPECT_EQ(parse_producers("--producers", "8,16,32"), (std::vector<int>{8, 16, 32}));
  EXPECT_EQ(parse_producers("--producers", "132,8:16:4,010"), (std::vector<int>{132, 8, 12, 16, 10}));
  EXPECT_EQ(parse_gaps("--gap", "0,1:4:x2,2.5"), (std::vector<double>{0, 1, 2, 4, 2.5}));
  EXPECT_EQ(parse_byte_sizes("--bytes", "100,1KiB"), (std::vector<double>{100, 1024}));
}

class CliBadGap : public testing::TestWithParam<const char*> {};

TEST_P(CliBadGap, IsAUsageError) { EXPECT_THROW(static_cast<void>(parse_gaps("--gap", GetParam())), UsageError); }

INSTANTIATE_TEST_SUITE_P(Each, CliBadGap,
                         testing::Values("", "-1", "nan", "1:2", "2:1:1", "0:1:0", "0:1:-1", "0:1:1:1", "a:b:c",
                                         "0:1e9:1", "0:1e308:1e-300", ":::", "1::2", ",", "1,", ",1", "1,,2", "1,x",
                                         "1:2:x1", "1:2:x0.5", "1:2:x", "1:2:xx2", "1:2:x0x2", "0:4:x2", "1:2:xnan",
                                         "1:2:xinf", "1:1e300:x1.0000001", "0:60000:1,0:60000:1", "0x10"));

TEST(CliLists, OfWholeNumbersRefuseOthers) {
  for (const char* text : {"0", "-8", "1.5", "8:16:2.5", "8:16:x1.2", "0x10", "1e2", "1000001", "99999999999999999999",
                           "8,0x10", "+8", " 8", "true"}) {
    EXPECT_THROW(static_cast<void>(parse_producers("--producers", text)), UsageError) << text;
  }
  EXPECT_THROW(static_cast<void>(parse_byte_sizes("--bytes", "3:9:x1.5")), UsageError);
}

TEST(CliLists, SayWhichPartBreaksWhichRule) {
  const auto complaint = [](const char* text) {
    try {
      static_cast<void>(parse_gaps("--gap", text));
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(complaint("1,5:2:1"), "--gap '5:2:1': FIRST:LAST:STEP needs LAST at least FIRST");
  EXPECT_EQ(complaint("0:1000000000:1"), "--gap '0:1000000000:1': names more than 100000 values");
  EXPECT_EQ(complaint("1:2:x1"), "--gap '1:2:x1': FACTOR of FIRST:LAST:xFACTOR must be a decimal number above 1 (x2)");
}

TEST(CliDigits, AreDecimal) {
  EXPECT_EQ(decimal_digits("--trials", "010"), "10");
  EXPECT_EQ(decimal_digits("--trials", "000"), "0");
  EXPECT_EQ(decimal_digits("--trials", "-08"), "-8");
  for (const char* text : {"", "-", "0x10", "0b1", "1.0", "1e3", "+1", " 1", "1 ", "--1", "true"}) {
    EXPECT_THROW(static_cast<void>(decimal_digits("--trials", text)), UsageError) << text;
  }
  EXPECT_EQ(decimal_number("--slots", "02.5e1"), "02.5e1");
  for (const char* text : {"", "0x10", "nan", "inf", "1.5x", " 1", "1,5"}) {
    EXPECT_THROW(static_cast<void>(decimal_number("--slots", text)), UsageError) << text;
  }
}

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
}  // namespace xstage::cli::cli_quantities_test
