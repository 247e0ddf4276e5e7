/// Counts, lists and pairs on the command line.

#include "cli/point_options.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/exit_code.hpp"

namespace xstage::cli::cli_point_options_test {
namespace {

using testing::ElementsAre;

TEST(PointOptions, CountsAreDecimal) {
  EXPECT_EQ(parse_count("--producers", "010", 1), 10);
  for (const char* wrong : {"", "0", "-1", "1.5", "0x10", "8 ", " 8", "1000001", "99999999999999999999"}) {
    EXPECT_THROW(static_cast<void>(parse_count("--producers", wrong, 1)), UsageError) << wrong;
  }
  EXPECT_EQ(parse_count("--source", "0", 0), 0);
}

TEST(PointOptions, ListsHaveCommas) {
  EXPECT_THAT(parse_counts("--producers", "64,48"), ElementsAre(64, 48));
  EXPECT_THAT(parse_byte_list("--bytes", "16KiB,100"), ElementsAre(16384, 100));
  EXPECT_THAT(parse_counts("--producers", "8:24:8,132"), ElementsAre(8, 16, 24, 132));
  EXPECT_THAT(parse_byte_list("--bytes", "16k:64k:x2"), ElementsAre(16384, 32768, 65536));
  EXPECT_THROW(static_cast<void>(parse_byte_list("--bytes", "100.5")), UsageError);  // not 100
  EXPECT_THAT(parse_gap_list("--gap-us", "0,10:14:2,40"), ElementsAre(0, 10, 12, 14, 40));
  EXPECT_THAT(parse_paths("bulk,store4"), ElementsAre(StorePath::bulk, StorePath::store4));
  EXPECT_THAT(parse_regimes("--regime", "free-running,aligned"), ElementsAre(Regime::free_running, Regime::aligned));
  for (const char* wrong : {"", ",", "1,", ",1", "1,,2", "1,1", "1;2"}) {
    EXPECT_THROW(static_cast<void>(parse_counts("--producers", wrong)), UsageError) << wrong;
  }
  EXPECT_THROW(static_cast<void>(parse_gap_list("--gap-us", "0:2000:1")), UsageError);
  EXPECT_THROW(static_cast<void>(parse_regime("--regime", "both")), UsageError);
}

TEST(PointOptions, TheOtherDeviceOfAPairNeedsNoName) {
  const auto pair = [](std::optional<int> source, std::optional<int> destination) {
    const DevicePair devices = device_pair(source, destination);
    return std::pair(devices.source, devices.destination);
  };
  EXPECT_EQ(pair({}, {}), std::pair(0, 1));
  EXPECT_EQ(pair(1, {}), std::pair(1, 0));
  EXPECT_EQ(pair({}, 0), std::pair(1, 0));
  EXPECT_EQ(pair({}, 3), std::pair(0, 3));
  EXPECT_THROW(static_cast<void>(pair(2, 2)), UsageError);
}

}  // namespace
}  // namespace xstage::cli::cli_point_options_test
