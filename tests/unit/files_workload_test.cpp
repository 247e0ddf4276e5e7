/// Workload files.

#include <gtest/gtest.h>

#include "unit/files_examples.hpp"
#include "xstage/audit.hpp"

namespace xstage::files_workload_test {
namespace {

using examples::refusal;
using examples::with;

constexpr const char* complete = R"({
  "schema": "xstage.workload/1",
  "name": "attention output tile",
  "description": "128 x 128 bf16, 12 heads",
  "store_path": "bulk",
  "producers": 132,
  "coincident_producers": 66,
  "bytes_per_producer": 32768,
  "gap_us": 12.5,
  "staging_slots": 2
})";

std::string refused_text(const std::string& text) {
  return refusal([&] { (void)parse_workload(text, "w.json"); });
}

TEST(WorkloadFile, every_member_is_read) {
  const Workload workload = parse_workload(complete, "w.json");
  EXPECT_EQ(workload.name, "attention output tile");
  EXPECT_EQ(workload.description, "128 x 128 bf16, 12 heads");
  EXPECT_EQ(workload.path, StorePath::bulk);
  EXPECT_EQ(workload.producers, 132);
  EXPECT_EQ(workload.coincident_producers, 66);
  EXPECT_EQ(workload.bytes, 32768);
  EXPECT_EQ(workload.gap_us, 12.5);
  EXPECT_EQ(workload.staging_slots, 2);
}

TEST(WorkloadFile, optional_members_default_to_all_producers_and_one_slot) {
  std::string text = with(complete, "\"coincident_producers\": 66,", "");
  text = with(text, "\"description\": \"128 x 128 bf16, 12 heads\",", "");
  const Workload workload = parse_workload(with(text, ",\n  \"staging_slots\": 2", ""), "w.json");
  EXPECT_EQ(workload.coincident_producers, 0);
  EXPECT_EQ(workload.staging_slots, 1);
}

TEST(WorkloadFile, messages_name_path_value_and_rule) {
  EXPECT_EQ(refused_text(with(complete, "32768", "32760")),
            "w.json: bytes_per_producer: 32760: must be divisible by 16, the store width of bulk");
  EXPECT_EQ(refused_text(with(complete, ": 66", ": 133")),
            "w.json: coincident_producers: 133: must be an integer from 0 to 132");
  EXPECT_EQ(refused_text(with(complete, ": 132", ": 0")), "w.json: producers: 0: must be an integer from 1 to 65536");
  EXPECT_EQ(refused_text(with(complete, "12.5", "-1")), "w.json: gap_us: -1: must be a number from 0 to 1000000000000");
  EXPECT_EQ(refused_text(with(complete, "workload/1", "workload/7")),
            "w.json: schema: \"xstage.workload/7\": schema must be \"xstage.workload/1\"");
}

TEST(WorkloadFile, the_store_path_must_be_known) {
  const std::string message = refused_text(with(complete, "\"bulk\"", "\"tma\""));
  EXPECT_TRUE(message.starts_with("w.json: store_path: \"tma\": ")) << message;
  EXPECT_NE(message.find("store16"), std::string::npos) << message;
}

TEST(WorkloadFile, the_top_level_must_be_an_object) {
  EXPECT_EQ(refused_text("[1, 2]"), "w.json: top level: array with 2 elements: must be an object");
}

TEST(WorkloadFile, every_required_member_is_missed) {
  for (const char* const key : {"schema", "name", "store_path", "producers", "bytes_per_producer", "gap_us"}) {
    const std::string text = with(complete, std::string("\"") + key + "\"", "\"description2\"");
    EXPECT_NE(refused_text(text), "<accepted>") << key;
  }
}

}  // namespace
}  // namespace xstage::files_workload_test
