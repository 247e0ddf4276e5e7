#pragma once
/// Version and commit of this library. Every file that the tool writes contains them, so that a measurement can be
/// traced to the code that made it.

#include <string_view>

namespace xstage {

/// "0.1.0", the version of CMakeLists.txt.
[[nodiscard]] std::string_view tool_version() noexcept;

/// The git commit of the sources, 40 hexadecimal digits; with "-dirty" behind it if the sources differed from that
/// commit; "unknown" for a build outside a git repository.
[[nodiscard]] std::string_view source_commit() noexcept;

}  // namespace xstage
