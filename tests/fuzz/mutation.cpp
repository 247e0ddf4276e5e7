#include "mutation.hpp"

#include <algorithm>
#include <iterator>

namespace xstage::fuzz {
namespace {

/// Tokens at which readers of numbers, lists and nested texts tend to break.
constexpr std::string_view tokens[] = {"0",
                                       "-1",
                                       "-0",
                                       "1e308",
                                       "1e309",
                                       "4e-324",
                                       "nan",
                                       "NaN",
                                       "Infinity",
                                       "-inf",
                                       "null",
                                       "true",
                                       "\"\"",
                                       "2147483648",
                                       "9223372036854775807",
                                       "9223372036854775808",
                                       "18446744073709551616",
                                       "0x10",
                                       "1.5",
                                       "+1",
                                       " 1",
                                       "",
                                       "1;1",
                                       "[[[[",
                                       "{\"a\":",
                                       "\\u0000",
                                       "\xff",
                                       "\r\n",
                                       ",,",
                                       "\"",
                                       "#",
                                       "# rows: 0"};

constexpr std::string_view separators = ",;:{}[]\"\n#";

bool is_digit(char character) { return character >= '0' && character <= '9'; }

}  // namespace

std::string Mutator::next() {
  std::string text = corpus_[below(corpus_.size())];
  for (std::size_t changes = 1 + below(4); changes > 0; --changes) {
    change(text);
  }
  return text;
}

void Mutator::change(std::string& text) {
  const std::size_t place = below(text.size());
  const std::size_t length = 1 + below(40);
  switch (below(8)) {
    case 0:
      text.resize(place);
      break;
    case 1:
      text.erase(place, length);
      break;
    case 2:
      text.insert(place, std::string(text, place, length));
      break;
    case 3:
      text.insert(place, tokens[below(std::size(tokens))]);
      break;
    case 4:
      text.insert(place, 1, static_cast<char>(below(256)));
      break;
    case 5:
      swap_separator(text);
      break;
    case 6:
      splice(text);
      break;
    default:
      replace_number(text);
  }
}

/// Most bytes are not digits, so a random place would rarely hit what the rules are about.
void Mutator::replace_number(std::string& text) {
  const auto from = text.begin() + static_cast<std::ptrdiff_t>(below(text.size()));
  const auto first = std::find_if(from, text.end(), is_digit);
  const auto last = std::find_if_not(first, text.end(), is_digit);
  const std::string_view token = tokens[below(std::size(tokens))];
  text.replace(first, last, token.begin(), token.end());
}

void Mutator::splice(std::string& text) {
  const std::string& other = corpus_[below(corpus_.size())];
  text = text.substr(0, below(text.size())) + other.substr(below(other.size()));
}

void Mutator::swap_separator(std::string& text) {
  const std::size_t found = text.find_first_of(separators, below(text.size()));
  if (found != std::string::npos) {
    text[found] = separators[below(separators.size())];
  }
}

}  // namespace xstage::fuzz
