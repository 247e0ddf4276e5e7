#pragma once
/// The plain subset of CSV that samples files use: no quotes, typed cells, errors that name file, line and column.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "files/quote.hpp"
#include "xstage/error.hpp"
#include "xstage/node.hpp"

namespace xstage::files {

/// A line without its line end, and its number from 1.
struct TextLine {
  std::size_t number = 0;
  std::string_view text;
};

/// Throws InputError "origin: line N: message".
[[noreturn]] void fail_at_line(std::string_view origin, std::size_t line, std::string_view message);

/// Hands out the lines of a text. LF and CRLF end a line; a last line without an end, or a NUL byte, is an error.
class LineReader {
 public:
  LineReader(std::string_view text, std::string_view origin) : rest_(text), origin_(origin) {}
  [[nodiscard]] std::optional<TextLine> next();
  [[nodiscard]] std::size_t lines_read() const { return lines_read_; }

 private:
  std::string_view rest_;
  std::string_view origin_;
  std::size_t lines_read_ = 0;
};

/// Parts between separators (an empty text has one empty part). Stops after `most` parts, so that a hostile line of
/// separators costs no memory; a caller that expects n parts asks for n + 1.
[[nodiscard]] std::vector<std::string_view> split(std::string_view text, char separator, std::size_t most);

/// One cell and its place. Refers to the text of the file, which must outlive it.
class CsvCell {
 public:
  CsvCell(std::string_view text, std::string_view column, std::string_view origin, std::size_t line)
      : text_(text), column_(column), origin_(origin), line_(line) {}

  [[nodiscard]] int small_integer() const;
  [[nodiscard]] std::int64_t integer() const;
  [[nodiscard]] bool boolean() const;
  /// The number of the cell. It must be finite and in plain decimal notation as std::from_chars reads it.
  [[nodiscard]] double number() const;
  /// An empty cell is NaN, the project's "not measured".
  [[nodiscard]] double number_or_empty() const { return text_.empty() ? not_measured : number(); }
  /// Semicolons between at most 1024 integers; an empty cell is an empty list.
  [[nodiscard]] std::vector<int> integers() const;

  template <typename Enum>
  [[nodiscard]] Enum name() const {
    try {
      return parse_name<Enum>(identifier_or_quote(text_));
    } catch (const InputError& error) {
      fail(error.what());
    }
  }

  /// Throws InputError "origin: line N, column: value: rule".
  [[noreturn]] void fail(std::string_view rule) const;

 private:
  std::string_view text_;
  std::string_view column_;
  std::string_view origin_;
  std::size_t line_;
};

/// Shortest text that reads back as the same number; NaN is empty. Throws InputError for an infinite number.
[[nodiscard]] std::string cell_of(double number);
[[nodiscard]] std::string cell_of(bool truth);
[[nodiscard]] std::string cell_of(std::int64_t number);
[[nodiscard]] std::string cell_of(int number);
[[nodiscard]] std::string cell_of(const std::vector<int>& numbers);

}  // namespace xstage::files
