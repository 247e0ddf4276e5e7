#pragma once
// Table of a benchmark's variants: their names, and whether a single rank has them. Each operator adds what its
// variants do, so that no other code asks for their names.

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "files/csv.hpp"
#include "xstage/error.hpp"

namespace xstage::bench {

struct VariantEntry {
  std::string_view name;
  bool among_ranks = false;  // it needs peers
  bool by_default = true;    // it is measured where no variants are named
};

/// Names of the variants that `wanted` selects, comma-separated.
template <typename Entry, typename Wanted>
[[nodiscard]] std::string variant_names(std::span<const Entry> table, const Wanted& wanted) {
  std::string names;
  for (const Entry& entry : table) {
    if (wanted(entry)) {
      names += fmt::format("{}{}", names.empty() ? "" : ",", entry.name);
    }
  }
  return names;
}

template <typename Entry>
[[nodiscard]] std::string all_variants(std::span<const Entry> table) {
  return variant_names(table, [](const Entry&) { return true; });
}

template <typename Entry>
[[nodiscard]] std::string default_variants(std::span<const Entry> table) {
  return variant_names(table, [](const Entry& entry) { return entry.by_default; });
}

/// The variants of "NAME,..." that `ranks` ranks have, in the order of the table, each once. InputError for an unknown
/// name, and if a single rank has none of them.
template <typename Entry>
[[nodiscard]] std::vector<Entry> select_variants(std::span<const Entry> table, std::string_view text, int ranks) {
  constexpr std::size_t most_parts = 1000;
  const std::vector<std::string_view> named = files::split(text, ',', most_parts);
  for (const std::string_view name : named) {
    if (std::none_of(table.begin(), table.end(), [&](const Entry& entry) { return entry.name == name; })) {
      throw InputError(fmt::format("variant '{}': one of {}", name, all_variants(table)));
    }
  }
  std::vector<Entry> selected;
  std::copy_if(table.begin(), table.end(), std::back_inserter(selected), [&](const Entry& entry) {
    return (ranks > 1 || !entry.among_ranks) && std::find(named.begin(), named.end(), entry.name) != named.end();
  });
  if (selected.empty()) {
    throw InputError(fmt::format("variants '{}' on 1 GPU: it has {} only", text,
                                 variant_names(table, [](const Entry& entry) { return !entry.among_ranks; })));
  }
  return selected;
}

}  // namespace xstage::bench
