#pragma once
/// Strict reading of JSON files: typed access whose errors name file, JSON path, value and rule.
///
///   const JsonDocument document(text, origin, "xstage.workload/1");
///   const JsonValue root = document.root();
///   root.allow_only({"schema", "name", "producers"});
///   const auto producers = root.member("producers").integer(1, 1024);

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "files/quote.hpp"
#include "xstage/error.hpp"
#include "xstage/node.hpp"

namespace xstage::files {

/// Largest nesting of objects and arrays; the project's own formats need 5.
inline constexpr std::size_t max_json_depth = 32;
/// Largest number of values in one document. It bounds memory, since "[0,0,..." grows 16-fold in memory.
inline constexpr std::size_t max_json_values = 1'000'000;

/// Parses one complete JSON text. Throws InputError for a syntax error (with line and column), a NUL byte, a key that
/// appears twice in one object, a number beyond the range of a double, nesting deeper than max_json_depth or more than
/// max_json_values values.
[[nodiscard]] nlohmann::json parse_json(std::string_view text, std::string_view origin);

/// C0, DEL and, as UTF-8 writes them, C1: U+009B begins an escape sequence as ESC [ does.
[[nodiscard]] bool has_control_character(std::string_view text);

/// A value and its place in a document. Refers to the document and to its origin, which must outlive it.
class JsonValue {
 public:
  JsonValue(const nlohmann::json& value, std::string_view origin, std::string path)
      : value_(&value), origin_(origin), path_(std::move(path)) {}

  /// For objects. A missing member, an unknown member or another type is an error.
  [[nodiscard]] JsonValue member(std::string_view key) const;
  [[nodiscard]] std::optional<JsonValue> optional_member(std::string_view key) const;
  void allow_only(std::initializer_list<std::string_view> keys) const;

  /// For arrays.
  [[nodiscard]] std::vector<JsonValue> elements() const;

  /// For scalars. Ranges include both ends.
  [[nodiscard]] std::string text() const;
  [[nodiscard]] std::string non_empty_text() const;
  /// Text without control characters, since it is shown on a terminal.
  [[nodiscard]] std::string printable_text() const;
  [[nodiscard]] bool boolean() const;
  [[nodiscard]] double number(double minimum, double maximum = std::numeric_limits<double>::max()) const;
  [[nodiscard]] double positive_number() const;
  [[nodiscard]] std::int64_t integer(std::int64_t minimum, std::int64_t maximum) const;
  [[nodiscard]] int small_integer(int minimum, int maximum = std::numeric_limits<int>::max()) const;
  /// null is NaN, the project's "not measured".
  [[nodiscard]] double number_or_null(double minimum, double maximum = std::numeric_limits<double>::max()) const;
  [[nodiscard]] bool is_null() const { return value_->is_null(); }

  /// One of the names of an enumeration of node.hpp.
  template <typename Enum>
  [[nodiscard]] Enum name() const {
    try {
      return parse_name<Enum>(identifier_or_quote(text()));
    } catch (const InputError& error) {
      fail(error.what());
    }
  }

  /// Throws InputError "origin: path: value: rule".
  [[noreturn]] void fail(std::string_view rule) const;

 private:
  void require_object() const;
  [[nodiscard]] JsonValue child(const nlohmann::json& value, std::string_view step) const;

  const nlohmann::json* value_;
  std::string_view origin_;
  std::string path_;
};

/// A parsed document whose top level is an object with a "schema" member that says `schema`.
class JsonDocument {
 public:
  JsonDocument(std::string_view text, std::string_view origin, std::string_view schema);
  [[nodiscard]] JsonValue root() const { return JsonValue(value_, origin_, ""); }

 private:
  std::string origin_;
  nlohmann::json value_;
};

}  // namespace xstage::files
