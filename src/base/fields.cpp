#include "base/fields.hpp"

#include <charconv>
#include <cmath>
#include <vector>

namespace xstage::fields {

namespace {

/// "a", "a or b", "a, b or c".
template <typename Item>
std::string listed(const std::vector<Item>& items) {
  std::string text;
  for (std::size_t index = 0; index < items.size(); ++index) {
    const char* separator = index == 0 ? "" : index + 1 == items.size() ? " or " : ", ";
    text += fmt::format("{}{}", separator, items[index]);
  }
  return text;
}

std::string span_of(const WholeNumbers& range) {
  constexpr int unlimited = std::numeric_limits<int>::max();
  if (range.count > 0) {
    return listed(
        std::vector<int>(range.values.begin(), range.values.begin() + static_cast<std::ptrdiff_t>(range.count)));
  }
  if (range.multiple_of > 1) {
    const std::string text = fmt::format("a multiple of {}", range.multiple_of);
    return range.most == unlimited ? text : text + fmt::format(" up to {}", range.most);
  }
  return range.most == unlimited ? fmt::format("at least {}", range.least)
                                 : fmt::format("between {} and {}", range.least, range.most);
}

template <typename Number>
bool read_number(std::string_view text, Number& value) {
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stopped == end;
}

}  // namespace

std::string text_of(const Value& value) {
  return std::visit([](const auto& typed) { return fmt::format("{}", typed); }, value);
}

bool accepts(const WholeNumbers& range, int value) {
  if (range.by_rule == value) {
    return true;
  }
  if (range.count > 0) {
    const auto end = range.values.begin() + static_cast<std::ptrdiff_t>(range.count);
    return std::find(range.values.begin(), end, value) != end;
  }
  return value >= range.least && value <= range.most && value % range.multiple_of == 0;
}

bool accepts(const RealNumbers& range, double value) { return std::isfinite(value) && value >= range.least; }

bool accepts(const Words& range, int value) {
  return value >= 0 && static_cast<std::size_t>(value) < range.names.size() &&
         (range.allowed >> static_cast<unsigned>(value) & 1U) != 0;
}

std::string description(const WholeNumbers& range) {
  return span_of(range) + (range.by_rule ? fmt::format(", or {} for the rule", *range.by_rule) : "");
}

std::string description(const RealNumbers& range) { return fmt::format("a finite number of at least {}", range.least); }

std::string description(const Words& range) {
  std::vector<std::string_view> allowed;
  for (std::size_t index = 0; index < range.names.size(); ++index) {
    if (accepts(range, static_cast<int>(index))) {
      allowed.push_back(range.names[index]);
    }
  }
  return listed(allowed);
}

std::optional<int> find_word(const Words& words, std::string_view name) {
  const auto found = std::find(words.names.begin(), words.names.end(), name);
  const auto value = static_cast<int>(found - words.names.begin());
  return accepts(words, value) ? std::optional<int>(value) : std::nullopt;
}

std::optional<int> read_int(std::string_view text) {
  int value = 0;
  return read_number(text, value) ? std::optional<int>(value) : std::nullopt;
}

std::optional<double> read_double(std::string_view text) {
  double value = 0;
  return read_number(text, value) && std::isfinite(value) ? std::optional<double>(value) : std::nullopt;
}

}  // namespace xstage::fields
