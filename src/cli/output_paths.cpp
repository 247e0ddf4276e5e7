#include "cli/output_paths.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "cli/exit_code.hpp"
#include "xstage/files.hpp"

namespace xstage::cli {

namespace {

namespace fs = std::filesystem;

/// Absolute and without links and "..", also where the file does not exist yet.
fs::path resolved(const std::string& name) {
  std::error_code unresolved;
  // From an absolute path: of a relative one that does not exist the beginning would be left out.
  fs::path path = fs::weakly_canonical(fs::current_path(unresolved) / name, unresolved);
  return unresolved ? fs::path(name) : path;
}

/// Two hard links have different paths and are one file. Devices are not kept, so that nothing is lost in them.
bool same_file(const std::string& one, const std::string& other) {
  std::error_code missing;
  return resolved(one) == resolved(other) || (fs::is_regular_file(one, missing) && fs::equivalent(one, other, missing));
}

}  // namespace

void require_different_files(std::initializer_list<std::string> read, std::initializer_list<std::string> written) {
  std::vector<std::string> files;
  bool standard_input_read = false;
  const auto add = [&](const std::string& name) {
    if (std::any_of(files.begin(), files.end(), [&](const std::string& other) { return same_file(name, other); })) {
      throw UsageError(fmt::format("'{}' is named twice: the files of a command must be different ones", name));
    }
    files.push_back(name);
  };
  for (const std::string& name : read) {
    if (name == "-" && standard_input_read) {
      throw UsageError("'-' is named twice: the standard input can be read once");
    }
    standard_input_read = standard_input_read || name == "-";
    if (!name.empty() && name != "-") {
      add(name);
    }
  }
  bool standard_output_written = false;
  for (const std::string& name : written) {
    if (name == "-" && standard_output_written) {
      throw UsageError("'-' is named twice: the standard output can hold one result");
    }
    standard_output_written = standard_output_written || name == "-";
    if (!name.empty() && name != "-") {
      add(name);
    }
  }
}

void refuse_standard_output(std::string_view option, const std::string& name) {
  if (is_standard_output(name)) {
    throw UsageError(fmt::format("{} -: must be a file: the standard output already holds the report", option));
  }
}

bool is_standard_output(const std::string& name) { return name == "-"; }

void check_output(const std::string& name) {
  if (!is_standard_output(name)) {
    check_writable(name);
  }
}

void write_output(Console& console, const std::string& name, std::string_view text) {
  if (is_standard_output(name)) {
    console.out << text;
  } else {
    write_text(name, text);
  }
}

}  // namespace xstage::cli
