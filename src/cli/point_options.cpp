#include "cli/point_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "cli/exit_code.hpp"
#include "cli/quantities.hpp"
#include "cli/wording.hpp"

namespace xstage::cli {

namespace {

constexpr int most_count = 1000000;
constexpr std::size_t most_values = 1000;

/// Calls `add` with each name of the list.
template <typename Add>
void for_each_part(std::string_view option, std::string_view list, Add add) {
  std::string_view rest = list;
  for (std::size_t parts = 1;; ++parts) {
    const std::size_t comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    if (part.empty()) {
      reject(option, list, "must be values with commas between them, none of them empty");
    }
    if (parts > most_values) {
      reject(option, list, "names more than 1000 values");
    }
    add(part);
    if (comma == std::string_view::npos) {
      return;
    }
    rest.remove_prefix(comma + 1);
  }
}

template <typename Value>
void add_new(std::string_view option, std::string_view text, const Value& value, std::vector<Value>& values) {
  if (std::find(values.begin(), values.end(), value) != values.end()) {
    reject(option, text, "is given twice in one list");
  }
  values.push_back(value);
}

/// The numbers of a list, which a sweep takes once each.
template <typename Value>
std::vector<Value> distinct(std::string_view option, std::string_view text, const std::vector<Value>& listed) {
  if (listed.size() > most_values) {
    reject(option, text, "names more than 1000 values");
  }
  std::vector<Value> values;
  for (const Value value : listed) {
    add_new(option, text, value, values);
  }
  return values;
}

}  // namespace

int parse_count(std::string_view option, std::string_view text, int least) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most_count) {
    reject(option, text, fmt::format("must be a whole number from {} to {}", least, most_count));
  }
  return value;
}

Regime parse_regime(std::string_view option, std::string_view text) {
  if (text == "aligned") {
    return Regime::aligned;
  }
  if (text == "free-running" || text == "free_running") {
    return Regime::free_running;
  }
  reject(option, text, "must be aligned or free-running");
}

std::vector<int> parse_counts(std::string_view option, std::string_view text) {
  return distinct(option, text, parse_producers(option, text));
}

std::vector<std::int64_t> parse_byte_list(std::string_view option, std::string_view text) {
  const std::vector<double> sizes = distinct(option, text, parse_byte_sizes(option, text));
  return {sizes.begin(), sizes.end()};
}

std::vector<double> parse_gap_list(std::string_view option, std::string_view text) {
  return distinct(option, text, parse_gaps(option, text));
}

std::vector<StorePath> parse_paths(std::string_view text) {
  std::vector<StorePath> values;
  for_each_part("--path", text,
                [&](std::string_view part) { add_new("--path", part, parse_path_option(std::string(part)), values); });
  return values;
}

std::vector<Regime> parse_regimes(std::string_view option, std::string_view text) {
  std::vector<Regime> values;
  for_each_part(option, text,
                [&](std::string_view part) { add_new(option, part, parse_regime(option, part), values); });
  return values;
}

DevicePair device_pair(std::optional<int> source, std::optional<int> destination) {
  DevicePair pair;
  pair.destination = destination.value_or(source.value_or(0) == 0 ? 1 : 0);
  pair.source = source.value_or(pair.destination == 0 ? 1 : 0);
  if (pair.source == pair.destination) {
    throw UsageError(
        fmt::format("--source {} and --destination {}: must be two devices, a burst goes from one to another",
                    pair.source, pair.destination));
  }
  return pair;
}

}  // namespace xstage::cli
