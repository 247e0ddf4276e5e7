#pragma once
/// Quotes foreign text in an error message: the result is bounded and printable, whatever a hostile file contains.

#include <string>
#include <string_view>

namespace xstage::files {

/// The text in double quotes, with control and non-ASCII bytes as \xNN. It is cut after 60 characters, and then the
/// full length follows.
[[nodiscard]] std::string quote(std::string_view text);

/// A key or enumerator: unchanged if it is a short identifier, otherwise quoted.
[[nodiscard]] std::string identifier_or_quote(std::string_view text);

}  // namespace xstage::files
