#include "files/json_validator.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <unordered_set>
#include <vector>

#include "files/json_reader.hpp"
#include "files/quote.hpp"
#include "xstage/error.hpp"

namespace xstage::files {
namespace {

/// An object or array that is still open.
struct OpenContainer {
  bool is_object = false;
  std::unordered_set<std::string> keys;
  std::string current_key;
  std::size_t elements = 0;
};

/// "[json.exception.parse_error.101] parse error at line 1, column 2: ..." without the bracketed prefix.
std::string_view without_library_prefix(std::string_view message) {
  const std::size_t end = message.find("] ");
  return message.starts_with("[json.exception") && end != std::string_view::npos ? message.substr(end + 2) : message;
}

/// Validates by a pass of parser events, which costs linear time and no document. The JSON library itself keeps the
/// last of two equal keys and nests without limit; a callback of its document parser could detect both, but takes
/// quadratic time on long arrays of objects.
class Validator : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit Validator(std::string_view origin) : origin_(origin) {}

  bool null() override { return count_value(); }
  bool boolean(bool) override { return count_value(); }
  bool number_integer(number_integer_t) override { return count_value(); }
  bool number_unsigned(number_unsigned_t) override { return count_value(); }
  bool number_float(number_float_t, const string_t&) override { return count_value(); }
  bool string(string_t&) override { return count_value(); }
  bool binary(binary_t&) override { return count_value(); }

  bool start_object(std::size_t) override { return open(true); }
  bool start_array(std::size_t) override { return open(false); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& key) override {
    if (!open_.back().keys.insert(key).second) {
      fail(fmt::format("key {} appears twice in one object", quote(key)));
    }
    open_.back().current_key = key;
    return true;
  }

  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception& error) override {
    throw InputError(fmt::format("{}: {}", origin_, without_library_prefix(error.what())));
  }

 private:
  bool count_value() {
    if (++values_ > max_json_values) {
      fail(fmt::format("more than {} values in one document", max_json_values));
    }
    if (!open_.empty()) {
      ++open_.back().elements;
    }
    return true;
  }

  bool open(bool is_object) {
    count_value();
    if (open_.size() >= max_json_depth) {
      fail(fmt::format("nested deeper than {} levels", max_json_depth));
    }
    open_.push_back({is_object, {}, {}, 0});
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  [[noreturn]] void fail(std::string_view rule) const {
    throw InputError(fmt::format("{}: {}: {}", origin_, place(), rule));
  }

  /// Path of the innermost open container.
  std::string place() const {
    std::string path;
    for (std::size_t level = 0; level + 1 < open_.size(); ++level) {
      const OpenContainer& container = open_[level];
      if (!container.is_object) {
        path += fmt::format("[{}]", container.elements - 1);
      } else {
        path += path.empty() ? container.current_key : "." + container.current_key;
      }
    }
    return path.empty() ? "top level" : quote(path);
  }

  std::string_view origin_;
  std::vector<OpenContainer> open_;
  std::size_t values_ = 0;
};

}  // namespace

void validate_json(std::string_view text, std::string_view origin) {
  // The library takes a NUL byte for the end of its input and would ignore what follows.
  if (const std::size_t nul = text.find('\0'); nul != std::string_view::npos) {
    throw InputError(fmt::format("{}: byte {} is NUL: not allowed in JSON", origin, nul));
  }
  Validator validator(origin);
  nlohmann::json::sax_parse(text, &validator);
}

}  // namespace xstage::files
