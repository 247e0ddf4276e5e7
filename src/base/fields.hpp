#pragma once
// A table describes the fields of a struct of numbers and choices, such as a plan: name, place, range, and the value
// that leaves the choice to a rule. The command line, result files, Python, the statement that ranks agree on and the
// checks of ranges read the same table, so that none of them can miss a field.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "xstage/error.hpp"

namespace xstage::fields {

/// Value of a field: a whole number, another number, or the name of an enumerator.
using Value = std::variant<int, double, std::string_view>;

[[nodiscard]] std::string text_of(const Value& value);

// ---- Ranges ---------------------------------------------------------------------------------------------------------

/// Multiples of `multiple_of` from `least` to `most`, or the first `count` of `values` if there are any. `by_rule` is
/// valid, too, and leaves the choice to a rule.
struct WholeNumbers {
  int least = 0;
  int most = std::numeric_limits<int>::max();
  int multiple_of = 1;
  std::array<int, 4> values{};
  std::size_t count = 0;
  std::optional<int> by_rule = std::nullopt;

  [[nodiscard]] constexpr WholeNumbers or_by_rule(int value) const {
    WholeNumbers numbers = *this;
    numbers.by_rule = value;
    return numbers;
  }
};

[[nodiscard]] constexpr WholeNumbers between(int least, int most) { return {.least = least, .most = most}; }

[[nodiscard]] constexpr WholeNumbers at_least(int least) { return {.least = least}; }

[[nodiscard]] constexpr WholeNumbers multiples_of(int factor) { return {.least = factor, .multiple_of = factor}; }

[[nodiscard]] constexpr WholeNumbers one_of(std::initializer_list<int> values) {
  WholeNumbers numbers;
  for (const int value : values) {
    numbers.values.at(numbers.count++) = value;
  }
  return numbers;
}

/// Finite numbers.
struct RealNumbers {
  double least = 0;
};

/// Names of an enum's values in their order; bit i of `allowed` for value i.
struct Words {
  std::span<const std::string_view> names;
  std::uint32_t allowed = 0;
};

[[nodiscard]] bool accepts(const WholeNumbers& range, int value);
[[nodiscard]] bool accepts(const RealNumbers& range, double value);
[[nodiscard]] bool accepts(const Words& range, int value);

/// Text "it must be ...", without the subject.
[[nodiscard]] std::string description(const WholeNumbers& range);
[[nodiscard]] std::string description(const RealNumbers& range);
[[nodiscard]] std::string description(const Words& range);

/// Value of an allowed word.
[[nodiscard]] std::optional<int> find_word(const Words& words, std::string_view name);

/// The number that the text states; empty if it states none. A double is finite.
[[nodiscard]] std::optional<int> read_int(std::string_view text);
[[nodiscard]] std::optional<double> read_double(std::string_view text);

// ---- Fields ---------------------------------------------------------------------------------------------------------

template <typename Values>
struct WholeNumber {
  int Values::*member;
  WholeNumbers range;
};

template <typename Values>
struct RealNumber {
  double Values::*member;
  RealNumbers range;
};

/// An enum's member, as the number of its value.
template <typename Values>
struct Choice {
  int (*get)(const Values&);
  void (*set)(Values&, int);
  Words range;
};

template <typename Values>
struct Field {
  std::string_view name;
  std::variant<WholeNumber<Values>, RealNumber<Values>, Choice<Values>> place;
  std::string_view help;  // one line
};

template <typename Values>
using Table = std::span<const Field<Values>>;

template <typename Values>
[[nodiscard]] constexpr Field<Values> field(std::string_view name, int Values::*member, const WholeNumbers& range,
                                            std::string_view help) {
  return {name, WholeNumber<Values>{member, range}, help};
}

template <typename Values>
[[nodiscard]] constexpr Field<Values> field(std::string_view name, double Values::*member, const RealNumbers& range,
                                            std::string_view help) {
  return {name, RealNumber<Values>{member, range}, help};
}

template <typename Member>
struct MemberTypes;

template <typename OfValues, typename OfMember>
struct MemberTypes<OfMember OfValues::*> {
  using Values = OfValues;
  using Enum = OfMember;
};

/// `names` are those of the enum's values in their order; without `allowed`, all of them are.
template <auto member>
[[nodiscard]] constexpr auto choice(std::string_view name, std::span<const std::string_view> names,
                                    std::string_view help,
                                    std::initializer_list<typename MemberTypes<decltype(member)>::Enum> allowed = {}) {
  using Values = typename MemberTypes<decltype(member)>::Values;
  using Enum = typename MemberTypes<decltype(member)>::Enum;
  std::uint32_t mask = allowed.size() == 0 ? (std::uint32_t{1} << names.size()) - 1 : 0;
  for (const Enum value : allowed) {
    mask |= std::uint32_t{1} << static_cast<unsigned>(value);
  }
  return Field<Values>{name,
                       Choice<Values>{[](const Values& values) { return static_cast<int>(values.*member); },
                                      [](Values& values, int value) { values.*member = static_cast<Enum>(value); },
                                      {names, mask}},
                       help};
}

// ---- All members ----------------------------------------------------------------------------------------------------

struct AnyMember {
  template <typename Member>
  constexpr operator Member() const;  // NOLINT(google-explicit-constructor): initialises a member of any type
};

/// Members of an aggregate that has no arrays: a table with fewer fields has forgotten one.
template <typename Values, typename... Members>
[[nodiscard]] consteval std::size_t count_members() {
  if constexpr (requires { Values{Members{}..., AnyMember{}}; }) {
    return count_members<Values, Members..., AnyMember>();
  } else {
    return sizeof...(Members);
  }
}

// ---- What is done with tables ---------------------------------------------------------------------------------------

/// The field of that name; null if there is none.
template <typename Values>
[[nodiscard]] const Field<Values>* find(Table<Values> table, std::string_view name) {
  const auto found =
      std::find_if(table.begin(), table.end(), [&](const Field<Values>& field) { return field.name == name; });
  return found == table.end() ? nullptr : &*found;
}

/// Names of all fields, comma-separated.
template <typename Values>
[[nodiscard]] std::string names(Table<Values> table) {
  std::string text;
  for (const Field<Values>& field : table) {
    text += fmt::format("{}{}", text.empty() ? "" : ", ", field.name);
  }
  return text;
}

/// What the field may be, in words.
template <typename Values>
[[nodiscard]] std::string description(const Field<Values>& field) {
  return std::visit([](const auto& place) { return description(place.range); }, field.place);
}

template <typename Values>
[[nodiscard]] Value value_of(const Field<Values>& field, const Values& values) {
  if (const auto* whole = std::get_if<WholeNumber<Values>>(&field.place)) {
    return values.*whole->member;
  }
  if (const auto* real = std::get_if<RealNumber<Values>>(&field.place)) {
    return values.*real->member;
  }
  const auto& chosen = std::get<Choice<Values>>(field.place);
  const int value = chosen.get(values);
  if (value < 0 || static_cast<std::size_t>(value) >= chosen.range.names.size()) {
    return value;
  }
  return chosen.range.names[static_cast<std::size_t>(value)];
}

/// Throws InputError for a value of another kind and for a word that is not allowed; `check` checks ranges of numbers.
template <typename Values>
void assign(const Field<Values>& field, Values& values, const Value& value) {
  const auto refuse = [&](std::string_view rule) {
    const char* quote = std::holds_alternative<std::string_view>(value) ? "'" : "";
    throw InputError(fmt::format("{} is {}{}{}: it must be {}", field.name, quote, text_of(value), quote, rule));
  };
  if (const auto* whole = std::get_if<WholeNumber<Values>>(&field.place)) {
    if (!std::holds_alternative<int>(value)) {
      refuse("a whole number of 32 bits");
    }
    values.*whole->member = std::get<int>(value);
  } else if (const auto* real = std::get_if<RealNumber<Values>>(&field.place)) {
    if (std::holds_alternative<std::string_view>(value)) {
      refuse("a number");
    }
    values.*real->member =
        std::holds_alternative<int>(value) ? static_cast<double>(std::get<int>(value)) : std::get<double>(value);
  } else {
    const auto& chosen = std::get<Choice<Values>>(field.place);
    const auto* name = std::get_if<std::string_view>(&value);
    const std::optional<int> word = name == nullptr ? std::nullopt : find_word(chosen.range, *name);
    if (!word) {
      refuse(description(chosen.range));
    }
    chosen.set(values, *word);
  }
}

/// Reads a value from the text of a command line. Returns an empty string, or the rule that the text breaks; `check`
/// checks ranges of numbers.
template <typename Values>
[[nodiscard]] std::string read(const Field<Values>& field, std::string_view text, Values& values) {
  if (const auto* whole = std::get_if<WholeNumber<Values>>(&field.place)) {
    const std::optional<int> number = read_int(text);
    values.*whole->member = number.value_or(0);
    return number ? "" : "the value must be a whole number of 32 bits";
  }
  if (const auto* real = std::get_if<RealNumber<Values>>(&field.place)) {
    const std::optional<double> number = read_double(text);
    values.*real->member = number.value_or(0);
    return number ? "" : "the value must be a finite number";
  }
  const auto& chosen = std::get<Choice<Values>>(field.place);
  const std::optional<int> word = find_word(chosen.range, text);
  if (!word) {
    return "the value must be " + description(chosen.range);
  }
  chosen.set(values, *word);
  return "";
}

/// Copies the value of one field from one struct to another.
template <typename Values>
void copy(const Field<Values>& field, const Values& from, Values& to) {
  if (const auto* whole = std::get_if<WholeNumber<Values>>(&field.place)) {
    to.*whole->member = from.*whole->member;
  } else if (const auto* real = std::get_if<RealNumber<Values>>(&field.place)) {
    to.*real->member = from.*real->member;
  } else {
    const auto& chosen = std::get<Choice<Values>>(field.place);
    chosen.set(to, chosen.get(from));
  }
}

/// Resets every field that a rule can choose to the value that leaves it to the rule.
template <typename Values>
void leave_to_rules(Table<Values> table, Values& values) {
  for (const Field<Values>& field : table) {
    const auto* whole = std::get_if<WholeNumber<Values>>(&field.place);
    if (whole != nullptr && whole->range.by_rule) {
      values.*whole->member = *whole->range.by_rule;
    }
  }
}

/// Throws InputError for the first field that is out of its range: "`of`: NAME is VALUE: it must be ...".
template <typename Values>
void check(Table<Values> table, const Values& values, std::string_view of) {
  for (const Field<Values>& field : table) {
    bool holds = false;
    if (const auto* whole = std::get_if<WholeNumber<Values>>(&field.place)) {
      holds = accepts(whole->range, values.*whole->member);
    } else if (const auto* real = std::get_if<RealNumber<Values>>(&field.place)) {
      holds = accepts(real->range, values.*real->member);
    } else {
      const auto& chosen = std::get<Choice<Values>>(field.place);
      holds = accepts(chosen.range, chosen.get(values));
    }
    if (!holds) {
      throw InputError(fmt::format("{}: {} is {}: it must be {}", of, field.name, text_of(value_of(field, values)),
                                   description(field)));
    }
  }
}

/// " NAME=VALUE" for each field.
template <typename Values>
[[nodiscard]] std::string statement(Table<Values> table, const Values& values) {
  std::string text;
  for (const Field<Values>& field : table) {
    text += fmt::format(" {}={}", field.name, text_of(value_of(field, values)));
  }
  return text;
}

}  // namespace xstage::fields
