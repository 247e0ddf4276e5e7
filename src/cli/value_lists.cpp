/// Lists and ranges of values on the command line.

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <utility>

#include "cli/quantities.hpp"

namespace xstage::cli {

namespace {

constexpr std::size_t most_list_values = 100000;
constexpr int most_producers = 1000000;
/// The last value must not be lost to rounding: 0:1:0.1 has eleven values.
constexpr double rounding = 1e-9;

/// Up to the separator; the rest of the text stays, without it.
std::string_view take_part(std::string_view& text, char separator) {
  const std::size_t end = text.find(separator);
  const std::string_view part = text.substr(0, end);
  text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  return part;
}

using ParseValue = double (*)(std::string_view, std::string_view);

/// Collects the values of one option.
class ValueList {
 public:
  ValueList(std::string_view option, std::string_view text, ParseValue parse, bool whole)
      : option_(option), text_(text), parse_(parse), whole_(whole) {}

  std::vector<double> values() {
    std::string_view rest = text_;
    const auto items = 1 + std::count(text_.begin(), text_.end(), ',');
    for (std::ptrdiff_t item = 0; item < items; ++item) {
      add_item(take_part(rest, ','));
    }
    return std::move(values_);
  }

 private:
  void add_item(std::string_view item) {
    if (item.empty()) {
      reject(option_, text_, "must be values with commas between them, none of them empty");
    }
    const auto colons = std::count(item.begin(), item.end(), ':');
    if (colons == 0) {
      add(item, parse_(option_, item));
      return;
    }
    if (colons != 2) {
      reject(option_, item, "must be VALUE, FIRST:LAST:STEP or FIRST:LAST:xFACTOR");
    }
    std::string_view rest = item;
    const double first = parse_(option_, take_part(rest, ':'));
    const double last = parse_(option_, take_part(rest, ':'));
    if (last < first) {
      reject(option_, item, "FIRST:LAST:STEP needs LAST at least FIRST");
    }
    if (rest.starts_with('x')) {
      add_multiples(item, first, last, parse_factor(item, rest.substr(1)));
    } else {
      add_steps(item, first, last, parse_(option_, rest));
    }
  }

  [[nodiscard]] double parse_factor(std::string_view item, std::string_view text) const {
    double factor = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), factor);
    if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(factor) || factor <= 1) {
      reject(option_, item, "FACTOR of FIRST:LAST:xFACTOR must be a decimal number above 1 (x2)");
    }
    return factor;
  }

  void add_steps(std::string_view item, double first, double last, double step) {
    if (step <= 0) {
      reject(option_, item, "FIRST:LAST:STEP needs STEP above zero");
    }
    const double steps = std::floor((last - first) / step + rounding);
    if (steps >= static_cast<double>(most_list_values)) {
      reject_length();
    }
    for (double index = 0; index <= steps; ++index) {
      add(item, first + index * step);
    }
  }

  void add_multiples(std::string_view item, double first, double last, double factor) {
    if (first <= 0) {
      reject(option_, item, "FIRST:LAST:xFACTOR needs FIRST above zero");
    }
    for (double value = first; value <= last * (1 + rounding); value *= factor) {
      add(item, value);
    }
  }

  void add(std::string_view item, double value) {
    if (whole_ && value != std::floor(value)) {
      reject(option_, item, fmt::format("gives {}, which is not whole", value));
    }
    if (values_.size() == most_list_values) {
      reject_length();
    }
    values_.push_back(value);
  }

  [[noreturn]] void reject_length() const {
    reject(option_, text_, fmt::format("names more than {} values", most_list_values));
  }

  std::string_view option_;
  std::string_view text_;
  ParseValue parse_;
  bool whole_;
  std::vector<double> values_;
};

double parse_list_count(std::string_view option, std::string_view text) {
  const std::string digits = decimal_digits(option, text);
  int value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || value < 1 || value > most_producers) {
    reject(option, text, fmt::format("must be a whole number from 1 to {}", most_producers));
  }
  return value;
}

}  // namespace

std::vector<double> parse_gaps(std::string_view option, std::string_view text) {
  return ValueList(option, text, parse_microseconds, false).values();
}

std::vector<double> parse_byte_sizes(std::string_view option, std::string_view text) {
  return ValueList(option, text, parse_bytes, true).values();
}

std::vector<int> parse_producers(std::string_view option, std::string_view text) {
  const std::vector<double> values = ValueList(option, text, parse_list_count, true).values();
  return {values.begin(), values.end()};
}

}  // namespace xstage::cli
