#pragma once
/// A result must not replace the file that it was made from.

#include <initializer_list>
#include <string>

namespace xstage::cli {

/// Throws UsageError if two of the names are the same file. Empty names are those of files that nobody asked for.
void require_different_files(std::initializer_list<std::string> names);

}  // namespace xstage::cli
