#include "cli/nearest.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace xstage::cli {

namespace {

/// Levenshtein's distance, one row of his table at a time.
std::size_t edit_distance(std::string_view one, std::string_view other) {
  std::vector<std::size_t> row(other.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < one.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < other.size(); ++j) {
      const std::size_t replaced = diagonal + (one[i] == other[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string nearest(std::string_view word, const std::vector<std::string>& known) {
  constexpr std::size_t longest_word = 100;  // a longer one is no slip, and the table would grow with it
  std::string found;
  std::size_t least = std::max<std::size_t>(2, word.size() / 3) + 1;
  for (const std::string& candidate : known) {
    const std::size_t distance = word.size() > longest_word ? least : edit_distance(word, candidate);
    if (distance < least) {
      least = distance;
      found = candidate;
    }
  }
  return found;
}

}  // namespace xstage::cli
