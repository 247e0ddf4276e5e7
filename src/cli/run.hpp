#pragma once
/// The whole tool, with its streams as arguments so that tests can run it.

#include <ostream>
#include <string_view>

namespace xstage::cli {

/// Returns the exit code. `progress_bar`: `err` is a terminal. `fingerprints`: the build's, for results files.
[[nodiscard]] int run(int argument_count, const char* const* arguments, std::ostream& out, std::ostream& err,
                      bool progress_bar, std::string_view fingerprints = {});

}  // namespace xstage::cli
