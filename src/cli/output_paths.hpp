#pragma once
/// A result must not replace the file that it was made from; "-" is a standard stream.

#include <initializer_list>
#include <string>
#include <string_view>

#include "cli/console.hpp"

namespace xstage::cli {

/// Throws UsageError if two of the names are the same file, however they are written: through links, through "..",
/// or as two names of one file. Empty names are those of files that nobody asked for; "-" among `read` is the
/// standard input, among `written` the standard output.
void require_different_files(std::initializer_list<std::string> read, std::initializer_list<std::string> written);

/// For outputs that a verb writes more than once or beside a report.
void refuse_standard_output(std::string_view option, const std::string& name);

[[nodiscard]] bool is_standard_output(const std::string& name);

/// As check_writable and write_text, but "-" is the standard output.
void check_output(const std::string& name);
void write_output(Console& console, const std::string& name, std::string_view text);

}  // namespace xstage::cli
