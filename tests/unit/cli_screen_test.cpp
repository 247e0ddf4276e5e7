/// Tables, listings and the progress bar.

#include <gtest/gtest.h>

#include <sstream>
#include <stdexcept>

#include "cli/progress_bar.hpp"
#include "cli/table.hpp"

namespace xstage::cli::cli_screen_test {
namespace {

TEST(CliTable, AlignsNumbersRightUnderTheirHeadings) {
  Table table({"name", "time\n(microseconds)"});
  table.left_align(1);
  table.add_row({"a", "1.50"});
  table.add_row({"longer", "12.25"});
  std::ostringstream out;
  table.print(out, "");
  EXPECT_EQ(out.str(),
            "name              time\n"
            "        (microseconds)\n"
            "------  --------------\n"
            "a                 1.50\n"
            "longer           12.25\n");
}

TEST(CliTable, RefusesARowThatDoesNotFitTheHeadings) {
  Table table({"one", "two"});
  EXPECT_THROW(table.add_row({"1"}), std::logic_error);
}

TEST(CliListing, AlignsValues) {
  Listing listing;
  listing.add("a", "1");
  listing.add("longer", "2");
  std::ostringstream out;
  listing.print(out, "");
  EXPECT_EQ(out.str(), "a       1\nlonger  2\n");
}

TEST(CliProgress, ExtrapolatesTheTimeLeftFromWhatIsDone) {
  // 30 of 120 in 45 seconds: 90 more take 135 seconds.
  EXPECT_EQ(progress_line(30, 120, 45), "[########........................] 30/120  time left 2:15");
}

TEST(CliProgress, KnowsNoTimeLeftBeforeTheFirstStep) {
  EXPECT_EQ(progress_line(0, 4, 0), "[................................] 0/4");
  EXPECT_EQ(progress_line(0, 0, 0), "[################################] 0/0");
}

TEST(CliProgress, IsSilentInAPipe) {
  std::ostringstream out;
  {
    ProgressBar bar(out, false);
    bar.show(1, 2);
  }
  EXPECT_EQ(out.str(), "");
}

TEST(CliProgress, ClearsItsLineOnATerminal) {
  std::ostringstream out;
  {
    ProgressBar bar(out, true);
    bar.show(1, 2);
  }
  EXPECT_NE(out.str().find("1/2"), std::string::npos);
  EXPECT_TRUE(out.str().ends_with("\r\x1b[K"));
}

}  // namespace
}  // namespace xstage::cli::cli_screen_test
