#include "files/csv.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cmath>
#include <iterator>

namespace xstage::files {
namespace {

/// Longest list in a cell: the devices of one node, with room to spare.
constexpr std::size_t longest_list = 1024;

/// Parses a number, which must be the whole text: no blanks, no plus sign, no rest.
template <typename Number>
std::optional<Number> parse_all(std::string_view text) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stopped == end ? std::optional(number) : std::nullopt;
}

}  // namespace

void fail_at_line(std::string_view origin, std::size_t line, std::string_view message) {
  throw InputError(fmt::format("{}: line {}: {}", origin, line, message));
}

std::optional<TextLine> LineReader::next() {
  if (rest_.empty()) {
    return std::nullopt;
  }
  ++lines_read_;
  const std::size_t end = rest_.find('\n');
  if (end == std::string_view::npos) {
    fail_at_line(origin_, lines_read_,
                 fmt::format("{}: the last line has no line end; the file is truncated", quote(rest_)));
  }
  std::string_view line = rest_.substr(0, end);
  rest_.remove_prefix(end + 1);
  if (line.ends_with('\r')) {
    line.remove_suffix(1);
  }
  if (line.find('\0') != std::string_view::npos) {
    fail_at_line(origin_, lines_read_, fmt::format("{}: a NUL byte is not allowed", quote(line)));
  }
  return TextLine{lines_read_, line};
}

std::vector<std::string_view> split(std::string_view text, char separator, std::size_t most) {
  std::vector<std::string_view> parts;
  while (parts.size() < most) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) {
      break;
    }
    text.remove_prefix(end + 1);
  }
  return parts;
}

void CsvCell::fail(std::string_view rule) const {
  throw InputError(fmt::format("{}: line {}, {}: {}: {}", origin_, line_, column_, quote(text_), rule));
}

int CsvCell::small_integer() const {
  const std::optional<int> number = parse_all<int>(text_);
  if (!number) {
    fail("must be a decimal integer within 32 bits");
  }
  return *number;
}

std::int64_t CsvCell::integer() const {
  const std::optional<std::int64_t> number = parse_all<std::int64_t>(text_);
  if (!number) {
    fail("must be a decimal integer within 64 bits");
  }
  return *number;
}

bool CsvCell::boolean() const {
  if (text_ != "true" && text_ != "false") {
    fail("must be true or false");
  }
  return text_ == "true";
}

double CsvCell::number() const {
  const std::optional<double> number = parse_all<double>(text_);
  if (!number || !std::isfinite(*number)) {
    fail("must be a finite decimal number");
  }
  return *number;
}

std::vector<int> CsvCell::integers() const {
  std::vector<int> numbers;
  if (text_.empty()) {
    return numbers;
  }
  for (const std::string_view part : split(text_, ';', longest_list + 1)) {
    const std::optional<int> number = parse_all<int>(part);
    if (!number || numbers.size() == longest_list) {
      fail(fmt::format("must be at most {} decimal integers with semicolons between them", longest_list));
    }
    numbers.push_back(*number);
  }
  return numbers;
}

std::string cell_of(double number) {
  if (std::isnan(number)) {
    return "";
  }
  if (std::isinf(number)) {
    throw InputError(fmt::format("{}: only finite numbers can be written", number));
  }
  char buffer[32];
  const auto result = std::to_chars(std::begin(buffer), std::end(buffer), number);
  return std::string(std::begin(buffer), result.ptr);
}

std::string cell_of(bool truth) { return truth ? "true" : "false"; }
std::string cell_of(std::int64_t number) { return fmt::to_string(number); }
std::string cell_of(int number) { return fmt::to_string(number); }
std::string cell_of(const std::vector<int>& numbers) { return fmt::format("{}", fmt::join(numbers, ";")); }

}  // namespace xstage::files
