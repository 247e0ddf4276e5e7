#pragma once
/// The node that a command line names.

#include <memory>
#include <optional>
#include <string>

#include "cli/point_options.hpp"
#include "xstage/node.hpp"

namespace xstage::cli {

/// "cuda", "simulated:PRESET", "simulated:FILE.json" or "recorded:FILE.csv". Throws UsageError for anything else. Of
/// GPUs every two must reach each other, or only the given pair.
[[nodiscard]] std::unique_ptr<Node> make_node(const std::string& choice, std::optional<DevicePair> pair = {});

/// The node of the choice for measurements that are repeated. Simulated ones draw anew in each repetition, or they
/// would repeat themselves to the last digit.
class RepeatedNode {
 public:
  RepeatedNode(std::string choice, DevicePair pair);
  [[nodiscard]] Node& of(int repetition);

 private:
  std::string choice_;
  std::unique_ptr<Node> first_;
  std::unique_ptr<Node> later_;  ///< simulated, of `repetition_`
  int repetition_ = 0;
};

/// The file that the choice names; empty where it names none (cuda, a preset). The file need not exist.
[[nodiscard]] std::string file_of_node(const std::string& choice);

}  // namespace xstage::cli
