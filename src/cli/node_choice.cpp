#include "cli/node_choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/exit_code.hpp"
#include "xstage/cuda_node.hpp"
#include "xstage/files.hpp"
#include "xstage/recorded_node.hpp"
#include "xstage/simulated_node.hpp"

namespace xstage::cli {

namespace {

constexpr std::string_view simulated_prefix = "simulated:";

bool is_preset(std::string_view name) {
  const std::vector<std::string> presets = simulated_presets();
  return std::find(presets.begin(), presets.end(), name) != presets.end();
}

/// The machine with another seed of its random draws.
std::unique_ptr<Node> simulated_repetition(const std::string& name, int repetition) {
  SimulatedHardware hardware =
      is_preset(name) ? simulated_preset(name) : parse_simulated_hardware(read_text(name), name);
  // Each device adds its index to the seed.
  hardware.seed += static_cast<std::uint64_t>(repetition) * static_cast<std::uint64_t>(hardware.devices);
  return make_simulated_node(hardware);
}

}  // namespace

std::unique_ptr<Node> make_node(const std::string& choice, std::optional<DevicePair> pair) {
  const std::size_t colon = choice.find(':');
  const std::string kind = choice.substr(0, colon);
  const std::string name = colon == std::string::npos ? "" : choice.substr(colon + 1);
  if (kind == "cuda" && colon == std::string::npos) {
    return pair ? make_cuda_node(pair->source, pair->destination) : make_cuda_node();
  }
  if (kind == "simulated" && !name.empty()) {
    return make_simulated_node(name);
  }
  if (kind == "recorded" && !name.empty()) {
    return make_recorded_node(read_samples(name));
  }
  throw UsageError(
      fmt::format("--node '{}': must be cuda, simulated:PRESET, simulated:FILE.json or recorded:FILE.csv", choice));
}

RepeatedNode::RepeatedNode(std::string choice, DevicePair pair)
    : choice_(std::move(choice)), first_(make_node(choice_, pair)) {}

Node& RepeatedNode::of(int repetition) {
  if (repetition == 0 || !choice_.starts_with(simulated_prefix)) {
    return *first_;
  }
  if (repetition != repetition_) {
    later_ = simulated_repetition(choice_.substr(simulated_prefix.size()), repetition);
    repetition_ = repetition;
  }
  return *later_;
}

std::string file_of_node(const std::string& choice) {
  const std::size_t colon = choice.find(':');
  if (colon == std::string::npos) {
    return "";
  }
  const std::string kind = choice.substr(0, colon);
  std::string name = choice.substr(colon + 1);
  if (kind == "recorded") {
    return name;
  }
  // A preset comes first: a file of that name is not read.
  return kind == "simulated" && !is_preset(name) ? name : "";
}

}  // namespace xstage::cli
