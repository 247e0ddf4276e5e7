#include "cli/output_paths.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <set>

#include "cli/exit_code.hpp"

namespace xstage::cli {

void require_different_files(std::initializer_list<std::string> names) {
  std::set<std::filesystem::path> seen;
  for (const std::string& name : names) {
    if (name.empty()) {
      continue;
    }
    std::error_code unresolved;
    // From an absolute path: of a relative one that does not exist the beginning would be left out.
    const std::filesystem::path resolved =
        std::filesystem::weakly_canonical(std::filesystem::current_path(unresolved) / name, unresolved);
    if (!seen.insert(unresolved ? std::filesystem::path(name) : resolved).second) {
      throw UsageError(fmt::format("'{}' is named twice: the files of a command must be different ones", name));
    }
  }
}

}  // namespace xstage::cli
