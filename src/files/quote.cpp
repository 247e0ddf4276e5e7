#include "files/quote.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

namespace xstage::files {
namespace {

constexpr std::size_t longest_quote = 60;

bool is_printable(char character) { return character >= ' ' && character <= '~'; }

bool is_identifier_character(char character) {
  return (character >= 'a' && character <= 'z') || (character >= '0' && character <= '9') || character == '_';
}

}  // namespace

std::string quote(std::string_view text) {
  std::string result = "\"";
  for (const char character : text.substr(0, longest_quote)) {
    if (is_printable(character)) {
      result += character;
    } else {
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(character));
    }
  }
  result += '"';
  if (text.size() > longest_quote) {
    result += fmt::format("... ({} characters)", text.size());
  }
  return result;
}

std::string identifier_or_quote(std::string_view text) {
  const bool identifier =
      !text.empty() && text.size() <= longest_quote && std::all_of(text.begin(), text.end(), is_identifier_character);
  return identifier ? std::string(text) : quote(text);
}

}  // namespace xstage::files
