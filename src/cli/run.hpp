#pragma once
/// The whole tool, with its streams as arguments so that tests can run it.

#include <ostream>

namespace xstage::cli {

/// Returns the exit code. `progress_bar`: `err` is a terminal.
[[nodiscard]] int run(int argument_count, const char* const* arguments, std::ostream& out, std::ostream& err,
                      bool progress_bar);

}  // namespace xstage::cli
