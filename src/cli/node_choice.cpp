#include "cli/node_choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "cli/exit_code.hpp"
#include "xstage/cuda_node.hpp"
#include "xstage/files.hpp"
#include "xstage/recorded_node.hpp"
#include "xstage/simulated_node.hpp"

namespace xstage::cli {

std::unique_ptr<Node> make_node(const std::string& choice) {
  const std::size_t colon = choice.find(':');
  const std::string kind = choice.substr(0, colon);
  const std::string name = colon == std::string::npos ? "" : choice.substr(colon + 1);
  if (kind == "cuda" && colon == std::string::npos) {
    return make_cuda_node();
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
  const std::vector<std::string> presets = simulated_presets();
  const bool preset = std::find(presets.begin(), presets.end(), name) != presets.end();
  return kind == "simulated" && !preset ? name : "";
}

}  // namespace xstage::cli
