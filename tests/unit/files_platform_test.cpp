/// Platform profiles: exact round trips, a reason beside every unknown number, and messages with the JSON path.

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "fuzz/same.hpp"
#include "unit/files_examples.hpp"
#include "xstage/files.hpp"

namespace xstage::files_platform_test {
namespace {

using examples::refusal;
using examples::with;

std::string text_of_example() { return format_platform(examples::platform()); }

std::string refused_text(const std::string& text) {
  return refusal([&] { (void)parse_platform(text, "p.json"); });
}

TEST(PlatformFile, every_field_survives_a_round_trip_exactly) {
  EXPECT_TRUE(same(examples::platform(), parse_platform(text_of_example(), "p.json")));
}

TEST(PlatformFile, text_is_stable_and_pretty) {
  const std::string text = text_of_example();
  EXPECT_EQ(text, format_platform(parse_platform(text, "p.json")));
  EXPECT_TRUE(text.starts_with("{\n  \"schema\": \"xstage.platform/1\",\n  \"node\": {\n"));
  EXPECT_TRUE(text.ends_with("\n}\n"));
}

/// Every object with "value": null, wherever it is.
void expect_reasons(const nlohmann::json& value, int& nulls) {
  if (value.is_object() && value.contains("value") && value["value"].is_null()) {
    ++nulls;
    EXPECT_FALSE(value.value("reason", "").empty()) << value.dump();
  }
  for (const auto& child : value) {
    if (child.is_structured()) {
      expect_reasons(child, nulls);
    }
  }
}

TEST(PlatformFile, every_unknown_estimate_has_its_reason_beside_it) {
  int nulls = 0;
  expect_reasons(nlohmann::json::parse(text_of_example()), nulls);
  EXPECT_EQ(nulls, 6);  // capacity at 16, bulk R, producer rate and unevenness, pair 1 -> 0, link counters
}

TEST(PlatformFile, an_unknown_number_without_a_reason_is_neither_written_nor_read) {
  Platform platform = examples::platform();
  platform.paths[0].capacity[0].capacity_bytes.reason.clear();
  EXPECT_EQ(refusal([&] { (void)format_platform(platform); }),
            "platform profile: paths[0].capacity[0].capacity_bytes: object with 4 members: a value of null needs a "
            "\"reason\"");
}

TEST(PlatformFile, infinite_numbers_are_never_written) {
  Platform platform = examples::platform();
  platform.paths[0].capacity[1].median_error = std::numeric_limits<double>::infinity();
  EXPECT_EQ(refusal([&] { (void)format_platform(platform); }), "inf: only finite numbers can be written");
}

TEST(PlatformFile, text_that_is_not_utf8_is_never_written) {
  Platform platform = examples::platform();
  platform.paths[1].issue_floor_reason = "\xff";
  EXPECT_NE(refusal([&] { (void)format_platform(platform); }).find("not UTF-8"), std::string::npos);
}

TEST(PlatformFile, message_names_origin_path_value_and_rule) {
  EXPECT_EQ(refused_text(with(text_of_example(), "\"producers\": 132", "\"producers\": 133")),
            "p.json: paths[0].capacity[1].producers: 133: must be an integer from 1 to 132");
  EXPECT_EQ(refused_text(with(text_of_example(), "\"issue_us\": 0.21", "\"issue_us\": \"0.21\"")),
            "p.json: paths[0].issue_floor[0].issue_us: \"0.21\": must be a number from 0 to 1000000000000");
}

TEST(PlatformFile, unknown_and_repeated_keys_are_refused) {
  const std::string unknown = refused_text(with(text_of_example(), "\"points\": 12", "\"points\": 12, \"unit\": 1"));
  EXPECT_TRUE(unknown.starts_with("p.json: paths[0].drain_gb_per_s.unit: 1: unknown key; known here: value,"))
      << unknown;
  EXPECT_EQ(refused_text(with(text_of_example(), "\"points\": 12", "\"points\": 12, \"points\": 13")),
            "p.json: \"paths[0].drain_gb_per_s\": key \"points\" appears twice in one object");
}

TEST(PlatformFile, syntax_errors_name_line_and_column) {
  EXPECT_TRUE(refused_text("{\n  \"schema\": NaN\n}\n").starts_with("p.json: parse error at line 2, column 13"));
}

TEST(PlatformFile, nesting_bombs_are_refused_without_recursion) {
  for (const char* const bracket : {"[", "{\"a\":"}) {
    std::string bomb;
    for (int level = 0; level < 200000; ++level) {
      bomb += bracket;
    }
    EXPECT_NE(refused_text(bomb).find("nested deeper than 32 levels"), std::string::npos) << bracket;
  }
}

TEST(PlatformFile, documents_that_would_exhaust_memory_are_refused) {
  std::string bomb = "[0";
  for (int value = 0; value < 1'000'001; ++value) {
    bomb += ",0";
  }
  EXPECT_NE(refused_text(bomb + "]").find("more than 1000000 values"), std::string::npos);
}

TEST(PlatformFile, nothing_may_follow_a_nul_byte) {
  EXPECT_NE(refused_text(text_of_example() + std::string("\0{}", 3)).find("is NUL"), std::string::npos);
}

TEST(PlatformFile, a_cut_is_noticed_wherever_it_falls) {
  const std::string text = text_of_example();
  for (std::size_t size = 0; size + 1 < text.size(); ++size) {  // without the last line end the JSON is complete
    ASSERT_NE(refused_text(text.substr(0, size)), "<accepted>") << size << " of " << text.size() << " bytes";
  }
}

}  // namespace
}  // namespace xstage::files_platform_test
