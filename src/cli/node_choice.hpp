#pragma once
/// The node that a command line names.

#include <memory>
#include <string>

#include "xstage/node.hpp"

namespace xstage::cli {

/// "cuda", "simulated:PRESET", "simulated:FILE.json" or "recorded:FILE.csv". Throws UsageError for anything else.
[[nodiscard]] std::unique_ptr<Node> make_node(const std::string& choice);

/// The file that the choice names; empty where it names none (cuda, a preset). The file need not exist.
[[nodiscard]] std::string file_of_node(const std::string& choice);

}  // namespace xstage::cli
