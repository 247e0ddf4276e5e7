#pragma once
/// Deterministic damage to a text: the same seed gives the same case on every platform.

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace xstage::fuzz {

class Mutator {
 public:
  Mutator(const std::vector<std::string>& corpus, std::uint32_t seed) : corpus_(corpus), random_(seed) {}

  /// A corpus text after one to four changes.
  [[nodiscard]] std::string next();

 private:
  /// std::uniform_int_distribution differs between standard libraries; the slight bias of a remainder does not matter.
  std::size_t below(std::size_t limit) { return limit == 0 ? 0 : random_() % limit; }
  void change(std::string& text);
  void replace_number(std::string& text);
  void splice(std::string& text);
  void swap_separator(std::string& text);

  const std::vector<std::string>& corpus_;
  std::mt19937 random_;
};

}  // namespace xstage::fuzz
