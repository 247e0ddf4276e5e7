#pragma once
/// Names for people, the same in every table and report.

#include <string_view>

#include "xstage/node.hpp"

namespace xstage {

/// "16-byte stores", "bulk copies".
[[nodiscard]] std::string_view words_of(StorePath path);
/// "aligned", "free-running".
[[nodiscard]] std::string_view words_of(Regime regime);

}  // namespace xstage
