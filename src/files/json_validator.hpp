#pragma once
/// The first of two passes over a JSON text: everything that must be refused before a document is built from it.

#include <string_view>

namespace xstage::files {

/// Throws InputError as documented at parse_json. Memory grows with nesting and keys only, not with the text.
void validate_json(std::string_view text, std::string_view origin);

}  // namespace xstage::files
