/// The names of an experiment's enumerations and the rules that every node checks.

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include "xstage/error.hpp"
#include "xstage/node.hpp"

namespace xstage::experiment_test {
namespace {

NodeDescription two_devices() {
  NodeDescription node;
  node.devices.resize(2);
  node.devices[0].multiprocessors = 132;
  node.devices[1].multiprocessors = 132;
  return node;
}

BurstExperiment good() {
  BurstExperiment experiment;
  experiment.producers = 132;
  experiment.bytes = 32768;
  experiment.gap_us = 12;
  experiment.bursts = 20;
  return experiment;
}

/// The message that check_experiment throws, or an empty string if it accepts.
std::string complaint(const BurstExperiment& experiment, const NodeDescription& node = two_devices()) {
  try {
    check_experiment(experiment, node);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

std::string complaint_after(const std::function<void(BurstExperiment&)>& change) {
  BurstExperiment experiment = good();
  change(experiment);
  return complaint(experiment);
}

template <typename Enum>
void expect_names_invert(int count) {
  for (int value = 0; value < count; ++value) {
    const auto enumerator = static_cast<Enum>(value);
    EXPECT_EQ(parse_name<Enum>(name_of(enumerator)), enumerator);
  }
  EXPECT_THROW((void)name_of(static_cast<Enum>(count)), InputError);
}

TEST(Experiment, EveryNameIsReadBack) {
  expect_names_invert<StorePath>(4);
  expect_names_invert<BurstMode>(4);
  expect_names_invert<Regime>(2);
  expect_names_invert<Target>(2);
  expect_names_invert<Direction>(2);
  expect_names_invert<GapFiller>(3);
}

TEST(Experiment, UnknownNameIsRefusedWithTheAcceptedOnes) {
  try {
    (void)parse_name<StorePath>("store32");
    FAIL() << "accepted";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(), "store path 'store32': not one of store4, store8, store16, bulk");
  }
  EXPECT_THROW((void)parse_name<Regime>(""), InputError);
  EXPECT_THROW((void)parse_name<Regime>("Aligned"), InputError);
}

TEST(Experiment, StoreWidths) {
  EXPECT_EQ(store_width_bytes(StorePath::store4), 4);
  EXPECT_EQ(store_width_bytes(StorePath::store8), 8);
  EXPECT_EQ(store_width_bytes(StorePath::store16), 16);
  EXPECT_EQ(store_width_bytes(StorePath::bulk), 16);
}

TEST(Experiment, AcceptsTheLimits) {
  EXPECT_EQ(complaint(good()), "");
  EXPECT_EQ(complaint_after([](auto& e) { e.producers = 1; }), "");
  EXPECT_EQ(complaint_after([](auto& e) { e.bytes = 16; }), "");
  EXPECT_EQ(complaint_after([](auto& e) { e.gap_us = 0; }), "");
  EXPECT_EQ(complaint_after([](auto& e) { e.threads = 1024; }), "");
}

TEST(Experiment, RefusesEachBrokenRuleWithItsValue) {
  const auto expect_naming = [](const std::string& value, const std::function<void(BurstExperiment&)>& change) {
    EXPECT_NE(complaint_after(change).find(value), std::string::npos) << value << " -> " << complaint_after(change);
  };
  expect_naming("producers 0", [](auto& e) { e.producers = 0; });
  expect_naming("producers 133: device 0 has 132", [](auto& e) { e.producers = 133; });
  expect_naming("bytes 0", [](auto& e) { e.bytes = 0; });
  expect_naming("bytes -16", [](auto& e) { e.bytes = -16; });
  expect_naming("bytes 24: not divisible by 16", [](auto& e) { e.bytes = 24; });
  expect_naming("bytes 10: not divisible by 4", [](auto& e) {
    e.path = StorePath::store4;
    e.bytes = 10;
  });
  expect_naming("more than 2^50 bytes", [](auto& e) { e.bytes = std::int64_t{1} << 62; });
  expect_naming("bursts 0", [](auto& e) { e.bursts = 0; });
  expect_naming("threads 33", [](auto& e) { e.threads = 33; });
  expect_naming("threads 0", [](auto& e) { e.threads = 0; });
  expect_naming("threads 2048", [](auto& e) { e.threads = 2048; });
  expect_naming("gap_us -1", [](auto& e) { e.gap_us = -1; });
  expect_naming("gap_us nan", [](auto& e) { e.gap_us = std::nan(""); });
  expect_naming("gap_us inf", [](auto& e) { e.gap_us = std::numeric_limits<double>::infinity(); });
  expect_naming("mode fixed_work with regime aligned", [](auto& e) {
    e.mode = BurstMode::fixed_work;
    e.regime = Regime::aligned;
  });
  expect_naming("source 2", [](auto& e) { e.source = 2; });
  expect_naming("source -1", [](auto& e) { e.source = -1; });
  expect_naming("destination 7", [](auto& e) { e.destinations = {7}; });
  expect_naming("destination 0: equals the source", [](auto& e) { e.destinations = {0}; });
  expect_naming("destination 1: listed twice", [](auto& e) { e.destinations = {1, 1}; });
  expect_naming("destinations", [](auto& e) { e.destinations = {}; });
}

TEST(Experiment, OneDeviceServesOnlyALocalTarget) {
  NodeDescription node = two_devices();
  node.devices.resize(1);
  EXPECT_NE(complaint(good(), node).find("at least 2"), std::string::npos);
  BurstExperiment local = good();
  local.target = Target::local;
  EXPECT_EQ(complaint(local, node), "");
  node.devices.clear();
  EXPECT_NE(complaint(local, node), "");
}

TEST(Experiment, BothWaysNeedsTheProducersOnTheDestinationToo) {
  NodeDescription node = two_devices();
  node.devices[1].multiprocessors = 64;
  EXPECT_EQ(complaint(good(), node), "");
  BurstExperiment both = good();
  both.direction = Direction::both_ways;
  EXPECT_NE(complaint(both, node).find("device 1 has 64"), std::string::npos);
}

}  // namespace
}  // namespace xstage::experiment_test
