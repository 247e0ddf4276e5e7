#include "cli/output_paths.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <set>

#include "cli/exit_code.hpp"

namespace xstage::cli {

void require_different_files(std::initializer_list<std::string> names) {
  std::set<std::filesystem::path> seen;
  for (const std::string& name : names) {
    std::error_code unresolved;
    const std::filesystem::path resolved = std::filesystem::weakly_canonical(name, unresolved);
    if (!seen.insert(unresolved ? std::filesystem::path(name) : resolved).second) {
      throw UsageError(fmt::format("'{}' is named twice: profile and samples must be different files", name));
    }
  }
}

}  // namespace xstage::cli
