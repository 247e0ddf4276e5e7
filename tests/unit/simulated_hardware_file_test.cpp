/// "xstage.simulated/1": what is read back, and what is refused.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "xstage/error.hpp"
#include "xstage/files.hpp"
#include "xstage/simulated_node.hpp"

namespace xstage::simulated_hardware_file_test {
namespace {

using nlohmann::json;

json h200x2() { return json::parse(format_simulated_hardware(simulated_preset("h200x2"))); }

std::string complaint(const std::string& text) {
  try {
    (void)parse_simulated_hardware(text, "my.json");
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

std::string complaint_with(const std::string& key, const json& value) {
  json document = h200x2();
  document[key] = value;
  return complaint(document.dump());
}

TEST(SimulatedHardwareFile, WritingAndReadingChangesNothing) {
  for (const std::string& preset : simulated_presets()) {
    const std::string text = format_simulated_hardware(simulated_preset(preset));
    EXPECT_EQ(format_simulated_hardware(parse_simulated_hardware(text, preset)), text);
  }
}

TEST(SimulatedHardwareFile, ThePresetFilesAreTheBuiltInMachines) {
  for (const std::string& preset : simulated_presets()) {
    const auto path = std::filesystem::path(XSTAGE_SOURCE_DIR) / "profiles/simulated" / (preset + ".json");
    EXPECT_EQ(read_text(path), format_simulated_hardware(simulated_preset(preset))) << path;
  }
}

TEST(SimulatedHardwareFile, BasedOnAPresetKeysMayBeLeftOut) {
  const SimulatedHardware hardware = parse_simulated_hardware(
      R"({"schema": "xstage.simulated/1", "based_on": "h200x2", "name": "slow", "link_gb_per_s": 10})", "my.json");
  EXPECT_EQ(hardware.name, "slow");
  EXPECT_EQ(hardware.link_gb_per_s, 10);
  EXPECT_EQ(hardware.links, simulated_preset("h200x2").links);
}

TEST(SimulatedHardwareFile, WithoutAPresetEveryKeyIsNeeded) {
  const json complete = h200x2();
  for (const auto& item : complete.items()) {
    json document = complete;
    document.erase(item.key());
    EXPECT_NE(complaint(document.dump()).find(item.key()), std::string::npos) << item.key();
  }
}

TEST(SimulatedHardwareFile, RefusesEveryNumberThatIsNotOne) {
  const json complete = h200x2();
  for (const auto& item : complete.items()) {
    if (!item.value().is_number()) {
      continue;
    }
    for (const json& bad : {json("12"), json(nullptr), json(true), json::array(), json(-1), json(1e300)}) {
      const std::string message = complaint_with(item.key(), bad);
      EXPECT_NE(message.find("my.json: " + item.key()), std::string::npos) << item.key() << " " << bad;
    }
  }
}

TEST(SimulatedHardwareFile, RefusesWhatWouldDivideByZero) {
  for (const char* key :
       {"links", "link_gb_per_s", "store_egress_gb_per_s", "bulk_egress_gb_per_s", "devices", "multiprocessor_gb_per_s",
        "crossbar_gb_per_s", "fabric_queue_bytes", "grant_bytes", "store_window_bytes"}) {
    EXPECT_NE(complaint_with(key, 0), "") << key;
  }
}

TEST(SimulatedHardwareFile, RefusesUnknownKeysAndPresets) {
  EXPECT_NE(complaint_with("link_gbps", 1).find("link_gbps: 1: unknown key"), std::string::npos);
  EXPECT_NE(complaint_with("based_on", "h100x8").find("must be one of h200x2, paper-8x148"), std::string::npos);
  EXPECT_NE(complaint_with("schema", "xstage.platform/1").find("schema"), std::string::npos);
}

TEST(SimulatedHardwareFile, RefusesImpossibleTopologies) {
  EXPECT_NE(complaint_with("multiprocessors", json::array()), "");
  EXPECT_NE(complaint_with("multiprocessors", json{json::array()}), "");
  EXPECT_NE(complaint_with("multiprocessors", json{{0}}), "");
  EXPECT_NE(complaint_with("multiprocessors", json{{65}}), "");
  EXPECT_NE(complaint_with("multiprocessors", json{{-6, 6}}), "");
  EXPECT_NE(complaint_with("multiprocessors", json{{6.5}}), "");
  EXPECT_NE(complaint_with("multiprocessors", 132), "");
  EXPECT_NE(complaint_with("multiprocessors", json(std::vector<std::vector<int>>(65, {1}))), "");
  const json too_many = std::vector<std::vector<int>>(20, {64});
  EXPECT_NE(complaint_with("multiprocessors", too_many).find("1280 multiprocessors in all"), std::string::npos);
}

TEST(SimulatedHardwareFile, RefusesHostileTexts) {
  const std::string good = h200x2().dump();
  for (std::size_t length = 0; length < good.size(); length += 37) {
    EXPECT_NE(complaint(good.substr(0, length)), "") << length;
  }
  EXPECT_NE(complaint("[]"), "");
  EXPECT_NE(complaint("null"), "");
  EXPECT_NE(complaint(std::string(100'000, '[')), "");
  EXPECT_NE(complaint(R"({"schema": "xstage.simulated/1", "based_on": "h200x2", "links": NaN})"), "");
  EXPECT_NE(complaint(R"({"schema": "xstage.simulated/1", "based_on": "h200x2", "links": 1e999})"), "");
  EXPECT_NE(complaint(R"({"schema": "xstage.simulated/1", "based_on": "h200x2", "links": 18, "links": 1})"), "");
  EXPECT_NE(complaint(R"({"schema": "xstage.simulated/1", "based_on": "h200x2", "name": ""})"), "");
  EXPECT_NE(complaint(R"({"schema": "xstage.simulated/1", "based_on": "h200x2", "links": 99999999999999999999})"), "");
}

TEST(SimulatedHardwareFile, ANodeComesFromAPresetOrAFileOrNotAtAll) {
  const auto path = std::filesystem::temp_directory_path() / "xstage_simulated_hardware_test.json";
  std::ofstream(path) << R"({"schema": "xstage.simulated/1", "based_on": "h200x2", "name": "mine"})";
  EXPECT_EQ(make_simulated_node(path.string())->describe().name, "mine");
  std::filesystem::remove(path);
  try {
    (void)make_simulated_node("h300x2");
    FAIL() << "accepted";
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("neither a file nor a preset (h200x2, paper-8x148)"), std::string::npos);
  }
  EXPECT_THROW((void)simulated_preset("h300x2"), InputError);
}

/// The smallest and slowest machine that the ranges admit still runs to an end.
TEST(SimulatedHardwareFile, TheSmallestMachineRuns) {
  json document = h200x2();
  document["multiprocessors"] = json{{1}};
  document["links"] = 1;
  for (const char* key :
       {"store_window_bytes", "bulk_window_bytes", "grant_bytes", "fabric_queue_bytes", "fabric_credit_bytes"}) {
    document[key] = 128;
  }
  document["store_queue_bytes"] = 0;
  const auto node = make_simulated_node(parse_simulated_hardware(document.dump(), "smallest"));
  for (const StorePath path : {StorePath::store4, StorePath::bulk}) {
    BurstExperiment experiment;
    experiment.path = path;
    experiment.bytes = 1024;
    experiment.bursts = 4;
    const BurstSample sample = node->run(experiment).front();
    EXPECT_TRUE(sample.verified);
    EXPECT_GT(sample.period_us, 0);
  }
}

}  // namespace
}  // namespace xstage::simulated_hardware_file_test
