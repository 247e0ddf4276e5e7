#pragma once
/// Foreign text inside an error message: bounded and printable, whatever a hostile file contains.

#include <string>
#include <string_view>

namespace xstage::files {

/// In double quotes; control and non-ASCII bytes as \xNN; cut after 60 characters with the full length told.
[[nodiscard]] std::string quote(std::string_view text);

/// A key or enumerator as it is if it is a short identifier, else quoted.
[[nodiscard]] std::string identifier_or_quote(std::string_view text);

}  // namespace xstage::files
