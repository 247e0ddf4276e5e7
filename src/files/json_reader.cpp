#include "files/json_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "files/json_validator.hpp"
#include "files/quote.hpp"

namespace xstage::files {
namespace {

using nlohmann::json;

/// The value as a message shows it: scalars as written, containers by size only.
std::string shown(const json& value) {
  if (value.is_object()) {
    return fmt::format("object with {} members", value.size());
  }
  if (value.is_array()) {
    return fmt::format("array with {} elements", value.size());
  }
  if (value.is_string()) {
    return quote(value.get_ref<const std::string&>());
  }
  return value.dump();
}

std::string range_rule(std::string_view kind, auto minimum, auto maximum, auto unlimited) {
  return maximum == unlimited ? fmt::format("must be {}, at least {}", kind, minimum)
                              : fmt::format("must be {} from {} to {}", kind, minimum, maximum);
}

/// Integers beyond 64 bits are refused, never wrapped; 3.0 is not an integer.
std::optional<std::int64_t> as_int64(const json& value) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<std::uint64_t>();
    if (number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      return std::nullopt;
    }
    return static_cast<std::int64_t>(number);
  }
  return value.is_number_integer() ? std::optional(value.get<std::int64_t>()) : std::nullopt;
}

}  // namespace

bool has_control_character(std::string_view text) {
  for (std::size_t index = 0; index < text.size(); ++index) {
    const auto byte = static_cast<unsigned char>(text[index]);
    const auto next = static_cast<unsigned char>(index + 1 < text.size() ? text[index + 1] : '\0');
    if (byte < 0x20 || byte == 0x7f || (byte == 0xc2 && next >= 0x80 && next <= 0x9f)) {
      return true;
    }
  }
  return false;
}

json parse_json(std::string_view text, std::string_view origin) {
  validate_json(text, origin);
  return json::parse(text);
}

void JsonValue::fail(std::string_view rule) const {
  throw InputError(fmt::format("{}: {}: {}: {}", origin_, path_.empty() ? "top level" : path_, shown(*value_), rule));
}

void JsonValue::require_object() const {
  if (!value_->is_object()) {
    fail("must be an object");
  }
}

JsonValue JsonValue::child(const json& value, std::string_view step) const {
  return JsonValue(value, origin_, path_ + std::string(step));
}

std::optional<JsonValue> JsonValue::optional_member(std::string_view key) const {
  require_object();
  const auto found = value_->find(key);
  if (found == value_->end()) {
    return std::nullopt;
  }
  return child(*found, (path_.empty() ? "" : ".") + identifier_or_quote(key));
}

JsonValue JsonValue::member(std::string_view key) const {
  const std::optional<JsonValue> found = optional_member(key);
  if (!found) {
    fail(fmt::format("must have a member \"{}\"", key));
  }
  return *found;
}

void JsonValue::allow_only(std::initializer_list<std::string_view> keys) const {
  require_object();
  for (const auto& item : value_->items()) {
    if (std::find(keys.begin(), keys.end(), item.key()) == keys.end()) {
      child(item.value(), (path_.empty() ? "" : ".") + identifier_or_quote(item.key()))
          .fail(fmt::format("unknown key; known here: {}", fmt::join(keys, ", ")));
    }
  }
}

std::vector<JsonValue> JsonValue::elements() const {
  if (!value_->is_array()) {
    fail("must be an array");
  }
  std::vector<JsonValue> result;
  result.reserve(value_->size());
  for (std::size_t index = 0; index < value_->size(); ++index) {
    result.push_back(child((*value_)[index], fmt::format("[{}]", index)));
  }
  return result;
}

std::string JsonValue::text() const {
  if (!value_->is_string()) {
    fail("must be a string");
  }
  return value_->get<std::string>();
}

std::string JsonValue::non_empty_text() const {
  std::string result = text();
  if (result.empty()) {
    fail("must not be empty");
  }
  return result;
}

std::string JsonValue::printable_text() const {
  std::string result = text();
  if (has_control_character(result)) {
    fail("must have no control characters: a terminal would obey them");
  }
  return result;
}

bool JsonValue::boolean() const {
  if (!value_->is_boolean()) {
    fail("must be true or false");
  }
  return value_->get<bool>();
}

double JsonValue::number(double minimum, double maximum) const {
  const double result = value_->is_number() ? value_->get<double>() : not_measured;
  if (!(result >= minimum && result <= maximum)) {
    fail(range_rule("a number", minimum, maximum, std::numeric_limits<double>::max()));
  }
  return result;
}

double JsonValue::positive_number() const {
  const double result = value_->is_number() ? value_->get<double>() : not_measured;
  if (!(result > 0)) {
    fail("must be a number greater than 0");
  }
  return result;
}

double JsonValue::number_or_null(double minimum, double maximum) const {
  return is_null() ? not_measured : number(minimum, maximum);
}

std::int64_t JsonValue::integer(std::int64_t minimum, std::int64_t maximum) const {
  const std::optional<std::int64_t> result = as_int64(*value_);
  if (!result || *result < minimum || *result > maximum) {
    fail(range_rule("an integer", minimum, maximum, std::numeric_limits<std::int64_t>::max()));
  }
  return *result;
}

int JsonValue::small_integer(int minimum, int maximum) const { return static_cast<int>(integer(minimum, maximum)); }

JsonDocument::JsonDocument(std::string_view text, std::string_view origin, std::string_view schema)
    : origin_(origin), value_(parse_json(text, origin)) {
  const JsonValue named = root().member("schema");
  if (named.text() != schema) {
    named.fail(fmt::format("schema must be \"{}\"", schema));
  }
}

}  // namespace xstage::files
