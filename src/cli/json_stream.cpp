#include "cli/json_stream.hpp"

#include <string>

namespace xstage::cli {

namespace {

std::string indented(const Json& value) { return value.dump(2, ' ', false, Json::error_handler_t::replace); }

}  // namespace

JsonStream::JsonStream(std::ostream& out) : out_(out) { out_ << '{'; }

void JsonStream::member(std::string_view name, const Json& value) {
  begin_member(name);
  print(value, "  ");
}

void JsonStream::begin_array(std::string_view name) {
  begin_member(name);
  out_ << '[';
  first_element_ = true;
}

void JsonStream::element(const Json& value) {
  out_ << (first_element_ ? "\n    " : ",\n    ");
  first_element_ = false;
  print(value, "    ");
}

void JsonStream::end_array() { out_ << (first_element_ ? "]" : "\n  ]"); }

void JsonStream::finish() { out_ << "\n}\n"; }

void JsonStream::begin_member(std::string_view name) {
  out_ << (first_member_ ? "\n  " : ",\n  ") << indented(Json(name)) << ": ";
  first_member_ = false;
}

/// Line ends within strings are escaped, so that each one here begins a line of the layout.
void JsonStream::print(const Json& value, std::string_view indent) {
  for (const char character : indented(value)) {
    out_ << character;
    if (character == '\n') {
      out_ << indent;
    }
  }
}

}  // namespace xstage::cli
